import { useEffect, useRef } from "preact/hooks";
import { token } from "../api/auth";
import { getDetail } from "../api/client";
import type { Detail, Entry } from "../api/schema";
import { date, duration, noTime } from "../model/format";
import { kindLabels, kindOf } from "../model/kind";
import { durationOf, severityOf, type Loaded } from "../model/trajectory";
import { useResource } from "../resource";
import { tabs, type Route, type Tab } from "../route";
import { Glyph } from "../ui/icons";
import { Notices } from "../ui/notices";
import { dayClock } from "../ui/preferences";
import { Loading, Problem } from "../ui/problem";
import { StateView } from "./agent-state";
import { EventContent } from "./content";
import { Input, type Jump } from "./model-input";
import { Raw } from "./raw";

interface Props {
  namespace: string;
  name: string;
  loaded: Loaded;
  id: string;
  tab: Tab;
  onTab: (tab: Tab) => void;
  onEntry: (id: string) => void;
  historyRoute: (agent: string, index: number) => Route;
  jump: { current: ((to: Jump) => void) | null };
  /** Whether somebody went in before there was something to go into. */
  entered: { current: boolean };
}

const tabLabels: Readonly<Record<Tab, string>> = { content: "Event content", state: "Agent state", raw: "Raw JSON" };

/** Details of the last events looked at, in memory only. */
const cache = new Map<string, Detail>();
const cached = 50;

// Another token can have other rights.
token.subscribe(() => cache.clear());

/** Details shows one event: what it is, the agent's state at that time, and what is stored of it. */
export function Details({ namespace, name, loaded, id, tab, onTab, onEntry, historyRoute, jump, entered }: Props) {
  const index = loaded.byId.get(id);
  const listed = index === undefined ? undefined : loaded.entries[index];
  const version = versionOf(listed);
  const detail = useResource(`${namespace}/${name}/${id}\n${version}`, (signal) => read(namespace, name, id, version, signal));
  jump.current = null;
  const entry = detail.value?.entry ?? listed;
  const answer = entry?.answerId === undefined ? undefined : loaded.entries[loaded.byId.get(entry.answerId) ?? -1];
  const value = detail.value;
  const panel = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const there = entered.current ? panel.current?.querySelector<HTMLElement>(".detail-scroll, .input-scroll") : null;
    if (!there) return;
    entered.current = false;
    there.focus();
  });
  return (
    <>
      {entry && <Head entry={entry} loaded={loaded} onEntry={onEntry} />}
      <Tabs tab={tab} onTab={onTab} />
      <div class="detail-body" ref={panel} role="tabpanel" id="detail-panel" aria-labelledby={`tab-${tab}`} key={`${id}/${tab}`}>
        {detail.busy && value === null && <Loading what="Reading the event" />}
        {detail.error !== null && <Problem error={detail.error} subject="event" namespace={namespace} onRetry={detail.reload} />}
        {value && tab !== "raw" && <Notices notices={tab === "content" ? unsaid(value) : value.notices} open />}
        {value && tab === "content" && value.input && (
          <Input
            input={value.input}
            assembly={value.assembly}
            usage={answer?.usage}
            historyRoute={(at) => historyRoute(value.entry.agent, at)}
            jump={jump}
          />
        )}
        {value && tab === "content" && !value.input && (
          <div class="detail-scroll" tabIndex={0} role="region" aria-label="Event content">
            <EventContent detail={value} onEntry={onEntry} />
          </div>
        )}
        {value && tab === "state" && (
          <div class="detail-scroll" tabIndex={0} role="region" aria-label="Agent state">
            <StateView state={value.agentState} isInput={value.entry.type === "modelInput"} />
          </div>
        )}
        {tab === "raw" && (
          <div class="detail-scroll" tabIndex={0} role="region" aria-label="Raw JSON">
            <Raw namespace={namespace} name={name} id={id} version={version} what={rawLabel(entry)} />
          </div>
        )}
      </div>
    </>
  );
}

/** versionOf changes when a later reading brought more of an entry. */
function versionOf(entry: Entry | undefined): string {
  return entry === undefined ? "" : `${entry.lastSequence ?? entry.sequence}/${entry.status ?? ""}/${entry.answerId ?? ""}`;
}

async function read(namespace: string, name: string, id: string, version: string, signal: AbortSignal): Promise<Detail> {
  const key = `${namespace}/${name}/${id}\n${version}`;
  const have = cache.get(key);
  cache.delete(key);
  const detail = have ?? (await getDetail(namespace, name, id, signal));
  cache.set(key, detail);
  for (const oldest of cache.keys()) {
    if (cache.size <= cached) break;
    cache.delete(oldest);
  }
  return detail;
}

/** unsaid are the notices that the content of an event does not say in the place of what is missing. */
function unsaid({ notices, output, tool }: Detail): Detail["notices"] {
  const said = output?.unavailable ?? tool?.unavailable;
  return notices.filter((notice) => notice.message !== said);
}

function rawLabel(entry: Entry | undefined): string {
  switch (entry?.type) {
    case "modelInput":
      return "The fixed input of the request";
    case "modelOutput":
      return "The stored response";
    default:
      return "The stored run events";
  }
}

function Head({ entry, loaded, onEntry }: { entry: Entry; loaded: Loaded; onEntry: (id: string) => void }) {
  const kind = kindOf(entry);
  const took = durationOf(entry);
  const severity = severityOf(entry);
  const facts = [
    `#${entry.sequence}${entry.lastSequence === undefined ? "" : `–#${entry.lastSequence}`}`,
    entry.run ? `run ${entry.run.name ?? entry.run.uid}` : "",
    entry.turn === undefined ? "" : `turn ${entry.turn}`,
    entry.capturedAt === undefined ? noTime : date(entry.startedAt ?? entry.capturedAt, dayClock()),
    took === null ? "" : duration(took),
    entry.clockAdjusted ? "time moved forward to follow the order of the stream" : "",
  ];
  return (
    <div class="detail-head">
      <h2>
        {kind && <Glyph kind={kind} />}
        {kind ? kindLabels[kind] : "Lifecycle"} <span class="detail-title">{entry.title}</span>
        {entry.status && entry.status !== "completed" && <span class={`chip ${severity === "error" ? "bad" : ""}`}>{entry.status}</span>}
      </h2>
      <p class="muted">{facts.filter((fact) => fact !== "").join(" · ")}</p>
      <Association entry={entry} loaded={loaded} onEntry={onEntry} />
    </div>
  );
}

/** Association leads from an event to its input, and from an input to its answer, where the record has the exact reference. */
function Association({ entry, loaded, onEntry }: { entry: Entry; loaded: Loaded; onEntry: (id: string) => void }) {
  if (entry.type === "modelInput") {
    const answer = entry.answerId;
    if (answer === undefined) return <p class="muted">No final response is recorded for this request.</p>;
    const listed = loaded.byId.has(answer) && !loaded.entries[loaded.byId.get(answer) ?? 0]?.hidden;
    return (
      <button type="button" onClick={() => onEntry(answer)}>
        {listed && entry.status === "completed" ? "View the response" : "View why there is no response"}
      </button>
    );
  }
  if (entry.type === "lifecycle" || entry.type === "unknown") return null;
  const input = entry.inputId;
  if (input === undefined) return <p class="muted">No exact input is associated.</p>;
  return (
    <button type="button" onClick={() => onEntry(input)}>
      View this input
    </button>
  );
}

function Tabs({ tab, onTab }: { tab: Tab; onTab: (tab: Tab) => void }) {
  const list = useRef<HTMLDivElement>(null);
  const onKeyDown = (event: KeyboardEvent) => {
    const at = tabs.indexOf(tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    const next = to === undefined ? undefined : tabs[(to + tabs.length) % tabs.length];
    if (next === undefined) return;
    event.preventDefault();
    onTab(next);
    list.current?.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Details" ref={list} onKeyDown={onKeyDown}>
      {tabs.map((item) => (
        <button
          key={item}
          type="button"
          role="tab"
          id={`tab-${item}`}
          aria-selected={item === tab}
          aria-controls="detail-panel"
          tabIndex={item === tab ? 0 : -1}
          onClick={() => onTab(item)}
        >
          {tabLabels[item]}
        </button>
      ))}
    </div>
  );
}
