import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { ApiError } from "../api/client";
import type { Jump } from "../details/model-input";
import { Pane as Details } from "../details/pane";
import { EventList } from "../list/event-list";
import { Filters } from "../list/filters";
import { plural } from "../model/format";
import { kindLabels, kindOf } from "../model/kind";
import { rowsOf, type Rows } from "../model/rows";
import type { Loaded } from "../model/trajectory";
import { go, replace } from "../navigation";
import { onSignIn } from "../resource";
import type { Route, Selection } from "../route";
import { Timeline } from "../timeline/timeline";
import { Reader } from "../trajectory-reader";
import { Frame } from "../ui/frame";
import { Notices } from "../ui/notices";
import { listWidth, timelineHeight } from "../ui/preferences";
import { Loading, Problem, State } from "../ui/problem";
import { Splitter } from "../ui/splitter";
import { ExportDialog } from "./export-dialog";
import { HelpDialog } from "./help-dialog";
import { usePageKeys } from "./page-keys";
import { Actions, Title } from "./trajectory-head";
import { useSize } from "./use-size";

interface Props {
  namespace: string;
  name: string;
  selection: Selection;
  /** What of the address could not be used. */
  notices: readonly string[];
}

/** Below this width the panes stand behind tabs instead of side by side. */
const narrow = 800;

type Pane = "timeline" | "events" | "details";

/** TrajectoryPage shows what a session's agents did: all of it above, one agent's events below, one event beside them. */
export function TrajectoryPage({ namespace, name, selection, notices }: Props) {
  const reader = useMemo(() => new Reader(namespace, name), []);
  const dialog = useSignal<"" | "export" | "help">("");
  useEffect(() => {
    void reader.refresh();
    return () => reader.stop();
  }, []);
  onSignIn(() => void reader.refresh());

  const close = () => go({ page: "conversation", namespace, name, agent: null, message: null });
  const loaded = reader.loaded.value;
  const error = reader.error.value;
  const refresh = () => void reader.refresh();
  return (
    <Frame
      title={<Title namespace={namespace} name={name} session={loaded?.session} />}
      actions={
        <Actions
          reader={reader}
          onRefresh={refresh}
          onExport={() => (dialog.value = "export")}
          onHelp={() => (dialog.value = "help")}
          onClose={close}
        />
      }
    >
      <main class="trajectory">
        <h2 class="visually-hidden">Trajectory</h2>
        <Remarks reader={reader} notices={notices} />
        {error !== null && loaded !== null && !(error instanceof ApiError && error.status === 401) && (
          <Stale error={error} namespace={namespace} onRetry={refresh} />
        )}
        {error !== null && loaded === null && <Problem error={error} subject="session" namespace={namespace} onRetry={refresh} />}
        {loaded === null && error === null && <Loading what="Reading the trajectory" />}
        {loaded !== null && loaded.counts.entries === 0 && !reader.busy.value && (
          <State title="This session has not run" icon="clock">
            <p>Events appear here after its first run.</p>
            <button type="button" onClick={refresh}>
              Refresh
            </button>
          </State>
        )}
        {loaded !== null && loaded.counts.entries > 0 && (
          <Panes
            namespace={namespace}
            name={name}
            loaded={loaded}
            selection={selection}
            onRefresh={refresh}
            onClose={close}
            onHelp={() => (dialog.value = "help")}
          />
        )}
        <p class="visually-hidden" aria-live="polite">
          {reader.news.value}
        </p>
      </main>
      {dialog.value === "export" && <ExportDialog namespace={namespace} name={name} onClose={() => (dialog.value = "")} />}
      {dialog.value === "help" && <HelpDialog onClose={() => (dialog.value = "")} />}
    </Frame>
  );
}

function Remarks({ reader, notices }: { reader: Reader; notices: readonly string[] }) {
  const loaded = reader.loaded.value;
  const running = [...(loaded?.runs.values() ?? [])].filter((run) => run.status === "running");
  const remarks = [...notices];
  if (reader.remark.value !== "") remarks.push(reader.remark.value);
  if (loaded !== null && loaded.realTime.adjusted > 0) remarks.push(loaded.realTime.message);
  if (running.length > 0) {
    const names = running.map((run) => run.name ?? run.uid).join(", ");
    remarks.push(`${running.length === 1 ? "Run" : "Runs"} ${names} ${running.length === 1 ? "is" : "are"} still executing. Unfinished requests have no final response.`);
  }
  return (
    <>
      {remarks.map((remark) => (
        <p key={remark} class="remark">
          {remark}
        </p>
      ))}
    </>
  );
}

/** Stale says that what is shown is what was read before. */
function Stale({ error, namespace, onRetry }: { error: unknown; namespace: string; onRetry: () => void }) {
  return (
    <details class="notices stale" open>
      <summary>The last reading failed. What is shown was read before it.</summary>
      <Problem error={error} subject="session" namespace={namespace} onRetry={onRetry} />
    </details>
  );
}

interface PanesProps {
  namespace: string;
  name: string;
  loaded: Loaded;
  selection: Selection;
  onRefresh: () => void;
  onClose: () => void;
  onHelp: () => void;
}

function Panes({ namespace, name, loaded, selection, onRefresh, onClose, onHelp }: PanesProps) {
  const root = useRef<HTMLDivElement>(null);
  const search = useRef<HTMLInputElement>(null);
  const jump = useRef<((to: Jump) => void) | null>(null);
  const entered = useRef(false);
  const size = useSize(root);
  const pane = useSignal<Pane>(selection.event === null ? "events" : "details");

  const agent = agentOf(loaded, selection);
  const rows = useMemo(
    () => rowsOf(loaded.entries, { agent, types: selection.types, search: selection.search }),
    [loaded.entries, agent, selection.types, selection.search],
  );
  const selected = selection.event === null ? -1 : (loaded.byId.get(selection.event) ?? -1);

  const change = (part: Partial<Selection>, how: (route: Route) => void = go) =>
    how({ page: "trajectory", namespace, name, selection: { ...selection, ...part } });
  const clear = () => change({ types: null, search: "" }, replace);
  const onAgent = (next: string) => change({ agent: next === loaded.agents[0]?.id ? null : next });
  const select = (index: number) => {
    const entry = loaded.entries[index];
    if (!entry || entry.id === selection.event) return;
    entered.current = false;
    change({ agent: entry.agent === loaded.agents[0]?.id ? null : entry.agent, event: entry.id, ...unhide(rows, loaded, index) });
    if (size.width < narrow) pane.value = "details";
  };
  const onEntry = (id: string) => {
    const index = loaded.byId.get(id);
    if (index === undefined) change({ event: id, tab: "content" });
    else if (id !== selection.event) {
      const entry = loaded.entries[index];
      change({ agent: entry?.agent === loaded.agents[0]?.id ? null : (entry?.agent ?? null), event: id, tab: "content", ...unhide(rows, loaded, index) });
    }
  };
  usePageKeys({ loaded, rows, selected, selection, agent, select, change, onAgent, onEntry, onRefresh, onClose, onHelp, search, jump });

  const wide = size.width >= narrow;
  const top = Math.min(timelineHeight.value, size.height * 0.7);
  const left = Math.min(listWidth.value, Math.max(size.width - 320, 280));
  const shows = (which: Pane) => wide || pane.value === which;
  return (
    <div class={wide ? "panes" : "panes narrow"} ref={root}>
      <Notices notices={loaded.notices} onSelect={onEntry} />
      {!wide && <PaneTabs pane={pane.value} onPane={(next) => (pane.value = next)} />}
      {shows("timeline") && (
        <div class="pane-timeline" data-pane id="pane-timeline" style={wide ? { height: `${top}px` } : {}}>
          <Timeline
            loaded={loaded}
            agent={agent}
            selected={selected}
            onSelect={select}
            onAgent={onAgent}
            onUntimed={() => {
              const first = loaded.entries.findIndex((entry) => entry.capturedAt === undefined && !entry.hidden);
              if (first >= 0) select(first);
            }}
          />
        </div>
      )}
      {wide && (
        <Splitter
          orientation="horizontal"
          label="Height of the timeline"
          controls="pane-timeline"
          value={top}
          min={96}
          max={Math.max(Math.round(size.height * 0.7), 96)}
          onChange={(value) => (timelineHeight.value = value)}
        />
      )}
      <div class="lower">
        {shows("events") && (
          <section class="pane-events" data-pane id="pane-events" aria-label="Events" style={wide ? { width: `${left}px` } : {}}>
            <Filters
              agents={loaded.agents}
              agent={agent}
              types={selection.types}
              search={selection.search}
              rows={rows}
              unknown={loaded.entries.some((entry) => kindOf(entry) === "unknown")}
              searchBox={search}
              onAgent={onAgent}
              onTypes={(types) => change({ types }, replace)}
              onSearch={(text) => change({ search: text }, replace)}
              onClear={clear}
            />
            {rows.events.length === 0 && (
              <State title={rows.filtered > 0 ? "No events match" : "This agent has no events"} icon="clock">
                {rows.filtered > 0 && (
                  <>
                    <p>{plural(rows.filtered, "event")} hidden by filters.</p>
                    <button type="button" onClick={clear}>
                      Clear filters
                    </button>
                  </>
                )}
              </State>
            )}
            {rows.events.length > 0 && (
              <EventList
                entries={loaded.entries}
                runs={loaded.runs}
                rows={rows}
                selected={selected}
                onSelect={select}
                onOpen={() => {
                  pane.value = "details";
                  const there = root.current?.querySelector<HTMLElement>(".detail-scroll, .input-scroll");
                  if (there) there.focus();
                  else entered.current = true;
                }}
              />
            )}
          </section>
        )}
        {wide && (
          <Splitter
            orientation="vertical"
            label="Width of the list of events"
            controls="pane-events"
            value={left}
            min={280}
            max={Math.max(Math.round(size.width - 320), 280)}
            onChange={(value) => (listWidth.value = value)}
          />
        )}
        {shows("details") && (
          <section class="pane-details" data-pane id="pane-details" aria-label="Details">
            <Details
              namespace={namespace}
              name={name}
              loaded={loaded}
              event={selection.event}
              tab={selection.tab}
              onTab={(tab) => change({ tab }, replace)}
              onEntry={onEntry}
              historyRoute={(of, message) => ({
                page: "conversation",
                namespace,
                name,
                agent: of === loaded.agents[0]?.id ? null : of,
                message,
              })}
              jump={jump}
              entered={entered}
            />
          </section>
        )}
      </div>
      <p class="visually-hidden" aria-live="polite">
        {spoken(loaded, selected)}
      </p>
    </div>
  );
}

/** agentOf is the agent whose events are listed: the one of the address, else that of the selected event, else the main one. */
function agentOf(loaded: Loaded, selection: Selection): string {
  const main = loaded.agents[0]?.id ?? "main";
  if (selection.agent !== null) return loaded.agents.some((agent) => agent.id === selection.agent) ? selection.agent : main;
  const event = selection.event === null ? undefined : loaded.entries[loaded.byId.get(selection.event) ?? -1];
  return event === undefined ? main : event.agent;
}

/** unhide clears the filters that would hide an event that was chosen elsewhere. */
function unhide(rows: Rows, loaded: Loaded, index: number): Partial<Selection> {
  if (rows.rowOf.has(index)) return {};
  const entry = loaded.entries[index];
  const kind = entry === undefined ? null : kindOf(entry);
  return kind === null ? {} : { types: null, search: "" };
}

function spoken(loaded: Loaded, selected: number): string {
  const entry = loaded.entries[selected];
  const kind = entry && kindOf(entry);
  return entry && kind ? `${kindLabels[kind]} ${entry.title}, number ${entry.sequence}${entry.status ? `, ${entry.status}` : ""}` : "";
}

function PaneTabs({ pane, onPane }: { pane: Pane; onPane: (pane: Pane) => void }) {
  const panes: readonly (readonly [Pane, string])[] = [
    ["timeline", "Timeline"],
    ["events", "Events"],
    ["details", "Details"],
  ];
  return (
    <div class="pane-tabs" role="group" aria-label="Panes">
      {panes.map(([value, label]) => (
        <button key={value} type="button" aria-pressed={pane === value} onClick={() => onPane(value)}>
          {label}
        </button>
      ))}
    </div>
  );
}
