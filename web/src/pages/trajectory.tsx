import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { ApiError } from "../api/client";
import type { Jump } from "../details/model-input";
import { Pane as Details } from "../details/pane";
import { kindLabels, kindOf } from "../model/kind";
import { rowsOf, type Rows } from "../model/rows";
import type { Loaded } from "../model/trajectory";
import { waitsFor } from "../model/waiting";
import { go, replace } from "../navigation";
import { onSignIn } from "../resource";
import type { Route, Selection } from "../route";
import { Timeline } from "../timeline/timeline";
import { Reader } from "../trajectory-reader";
import { Frame } from "../ui/frame";
import { lazy } from "../ui/lazy-component";
import { Notices } from "../ui/notices";
import { listWidth, timelineHeight } from "../ui/preferences";
import { Loading, Problem, State } from "../ui/problem";
import { Splitter } from "../ui/splitter";
import { EventsPane } from "./events-pane";
import { useFindKey, usePageKeys } from "./page-keys";
import { Actions, Title } from "./trajectory-head";
import { useSize } from "./use-size";

interface Props {
  namespace: string;
  name: string;
  selection: Selection;
  /** What of the address could not be used. */
  notices: readonly string[];
}

const ExportDialog = lazy(() => import("./export-dialog").then((module) => module.ExportDialog));
const HelpDialog = lazy(() => import("./help-dialog").then((module) => module.HelpDialog));

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

  // A dialog that is closed tells so a moment later: by then another one can be open.
  const closing = (which: string) => () => {
    if (dialog.value === which) dialog.value = "";
  };
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
          exportable={loaded !== null}
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
        {loaded !== null && !begun(loaded) && !reader.busy.value && (
          <State title="This session has not run" icon="clock">
            <p>Events appear here after its first run.</p>
            <button type="button" onClick={refresh}>
              Refresh
            </button>
          </State>
        )}
        {loaded !== null && begun(loaded) && (
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
      {dialog.value === "export" && <ExportDialog namespace={namespace} name={name} onClose={closing("export")} />}
      {dialog.value === "help" && <HelpDialog onClose={closing("help")} />}
    </Frame>
  );
}

/** begun says whether there is anything to show: a run that ended before its first request left no more than its end. */
function begun(loaded: Loaded): boolean {
  return loaded.counts.entries > 0 || loaded.runs.size > 0;
}

function Remarks({ reader, notices }: { reader: Reader; notices: readonly string[] }) {
  const loaded = reader.loaded.value;
  const underWay = [...(loaded?.runs.values() ?? [])].filter((run) => run.status === "running");
  const running = underWay.filter((run) => loaded === null || waitsFor(loaded, run) === "");
  const remarks = [...notices];
  if (reader.remark.value !== "") remarks.push(reader.remark.value);
  if (loaded !== null && loaded.realTime.adjusted > 0) remarks.push(loaded.realTime.message);
  if (running.length > 0) {
    const names = running.map((run) => run.name ?? run.uid).join(", ");
    remarks.push(`${running.length === 1 ? "Run" : "Runs"} ${names} ${running.length === 1 ? "is" : "are"} still executing. Unfinished requests have no final response.`);
  }
  for (const run of underWay) {
    const what = loaded === null ? "" : waitsFor(loaded, run);
    if (what !== "") remarks.push(`Run ${run.name ?? run.uid} waits for ${what}.`);
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
  const finding = useRef(false);
  const pane = useSignal<Pane>(selection.event === null ? "events" : "details");

  const centre = useRef<(() => void) | null>(null);

  const agent = agentOf(loaded, selection);
  const { types, run, search: words } = selection;
  const rows = useMemo(() => rowsOf(loaded, { agent, types, run, search: words }), [loaded, agent, types, run, words]);
  const selected = selection.event === null ? -1 : (loaded.byId.get(selection.event) ?? -1);

  const change = (part: Partial<Selection>, how: (route: Route) => void = go) =>
    how({ page: "trajectory", namespace, name, selection: { ...selection, ...part } });
  // The timeline says what part of the time it shows a moment later: by then something else can have been selected.
  const latest = useRef(change);
  latest.current = change;
  const clear = () => change({ types: null, run: null, search: "" }, replace);
  // Without a name in the address the agent is that of the selected event.
  const onAgent = (next: string) => change({ agent: next === agentOf(loaded, { ...selection, agent: null }) ? null : next, run: null });
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
  const onFind = () => {
    finding.current = !toSearch(search.current);
    pane.value = "events";
  };
  useEffect(() => {
    // In a narrow window the list comes first.
    if (finding.current && toSearch(search.current)) finding.current = false;
  });
  useFindKey(search, onFind);
  usePageKeys({ loaded, rows, selected, selection, agent, select, change, onAgent, onEntry, onRefresh, onClose, onHelp, search, onFind, centre, jump });

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
            time={selection.time}
            centre={centre}
            onTime={(time) => latest.current({ time }, replace)}
            onSelect={select}
            onAgent={onAgent}
            onUntimed={() => {
              const first = loaded.entries.findIndex((entry, index) => index >= loaded.timed && !entry.hidden);
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
          <EventsPane
            width={wide ? left : null}
            loaded={loaded}
            agent={agent}
            rows={rows}
            selected={selected}
            selection={selection}
            search={search}
            change={change}
            onAgent={onAgent}
            onClear={clear}
            onSelect={select}
            onOpen={() => {
              pane.value = "details";
              const there = root.current?.querySelector<HTMLElement>(".detail-scroll, .input-scroll");
              if (there) there.focus();
              else entered.current = true;
            }}
          />
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

function toSearch(box: HTMLInputElement | null): boolean {
  box?.focus();
  box?.select();
  return box !== null;
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
  if (rows.rowOf(index) !== undefined) return {};
  const entry = loaded.entries[index];
  const kind = entry === undefined ? null : kindOf(entry);
  return kind === null ? {} : { types: null, run: null, search: "" };
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
