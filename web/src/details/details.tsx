import { useEffect, useRef } from "preact/hooks";
import type { Detail, Entry } from "../api/schema";
import { previousInput } from "../model/compare";
import type { Loaded } from "../model/trajectory";
import { useResource } from "../resource";
import type { Tab } from "../route";
import { Shown } from "../ui/image";
import { Notices } from "../ui/notices";
import { Problem } from "../ui/problem";
import { StateView } from "./agent-state";
import { Compare } from "./compare";
import { EventContent } from "./content";
import { Head } from "./head";
import { Input, type HistoryRoute, type Jump } from "./model-input";
import { Raw } from "./raw";
import { keyOf, readDetail, versionOf } from "./read";
import { Skeleton } from "./skeleton";
import { Tabs } from "./tabs";

export interface DetailsProps {
  namespace: string;
  name: string;
  loaded: Loaded;
  id: string;
  tab: Tab;
  onTab: (tab: Tab) => void;
  onEntry: (id: string) => void;
  /** The conversation of an agent at a position of its history. */
  historyRoute: (agent: string, index: number) => ReturnType<HistoryRoute>;
  jump: { current: ((to: Jump) => void) | null };
  /** Whether somebody went in before there was something to go into. */
  entered: { current: boolean };
}

/** Details shows one event: what it is, the agent's state at that time, and what is stored of it. */
export function Details({ namespace, name, loaded, id, tab: wanted, onTab, onEntry, historyRoute, jump, entered }: DetailsProps) {
  const index = loaded.byId.get(id);
  const listed = index === undefined ? undefined : loaded.entries[index];
  const which = { namespace, name, id, version: versionOf(listed) };
  const detail = useResource(keyOf(which), (signal) => readDetail(which, signal));
  jump.current = null;
  const value = detail.value;
  const entry = value?.entry ?? listed;
  // Only inputs are compared; of anything else such an address shows the content.
  const tab = wanted === "compare" && entry !== undefined && entry.type !== "modelInput" ? "content" : wanted;
  const answer = entry?.answerId === undefined ? undefined : loaded.entries[loaded.byId.get(entry.answerId) ?? -1];
  const panel = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const there = entered.current ? panel.current?.querySelector<HTMLElement>(".detail-scroll, .input-scroll") : null;
    if (!there) return;
    entered.current = false;
    there.focus();
  });
  const position = (at: number) => historyRoute(entry?.agent ?? "", at);
  return (
    <Shown.Provider value={which}>
      {entry && <Head entry={entry} loaded={loaded} onEntry={onEntry} />}
      <Tabs tab={tab} input={entry?.type === "modelInput"} onTab={onTab} />
      <div class="detail-body" ref={panel} role="tabpanel" id="detail-panel" aria-labelledby={`tab-${tab}`} key={`${id}/${tab}`}>
        {detail.busy && value === null && <Skeleton />}
        {detail.error !== null && <Problem error={detail.error} subject="event" namespace={namespace} onRetry={detail.reload} />}
        {value && tab !== "raw" && <Notices notices={tab === "content" ? unsaid(value) : value.notices} open />}
        {value && tab === "content" && value.input && (
          <Input input={value.input} assembly={value.assembly} usage={answer?.usage} historyRoute={position} jump={jump} />
        )}
        {value && tab === "content" && !value.input && (
          <div class="detail-scroll" tabIndex={0} role="region" aria-label="Event content">
            <EventContent detail={value} namespace={namespace} name={name} loaded={loaded} onEntry={onEntry} />
          </div>
        )}
        {value && tab === "compare" && (
          <div class="detail-scroll" tabIndex={0} role="region" aria-label="Comparison with the previous input">
            <Comparing namespace={namespace} name={name} loaded={loaded} detail={value} onEntry={onEntry} historyRoute={position} />
          </div>
        )}
        {value && tab === "state" && (
          <div class="detail-scroll" tabIndex={0} role="region" aria-label="Agent state">
            <StateView state={value.agentState} isInput={value.entry.type === "modelInput"} />
          </div>
        )}
        {tab === "raw" && (
          <div class="detail-scroll" tabIndex={0} role="region" aria-label="Raw JSON">
            <Raw namespace={namespace} name={name} id={id} version={which.version} what={rawLabel(entry)} />
          </div>
        )}
      </div>
    </Shown.Provider>
  );
}

interface ComparingProps {
  namespace: string;
  name: string;
  loaded: Loaded;
  detail: Detail;
  onEntry: (id: string) => void;
  historyRoute: HistoryRoute;
}

/** Comparing finds the input before an input, or says why there is nothing to compare. */
function Comparing({ namespace, name, loaded, detail, onEntry, historyRoute }: ComparingProps) {
  const previous = loaded.byId.has(detail.entry.id) ? previousInput(loaded.entries, detail.entry) : null;
  if (previous === null || !detail.input) {
    return (
      <section class="block">
        <p class="muted">{nothing(loaded, detail)}</p>
      </section>
    );
  }
  return <Compared namespace={namespace} name={name} previous={previous} after={detail} onEntry={onEntry} historyRoute={historyRoute} />;
}

function nothing(loaded: Loaded, { entry, input }: Detail): string {
  if (!input) return "What this record names cannot be shown, and so not be compared.";
  if (!loaded.byId.has(entry.id)) return "The events before this one have not been read yet.";
  const purpose = entry.purpose === undefined || entry.purpose === "main" ? "" : ` for a ${entry.purpose}`;
  return `There is no previous input: this is the first one of the agent${purpose}.`;
}

type ComparedProps = Omit<ComparingProps, "loaded" | "detail"> & { previous: Entry; after: Detail };

function Compared({ namespace, name, previous, after, onEntry, historyRoute }: ComparedProps) {
  const which = { namespace, name, id: previous.id, version: versionOf(previous) };
  const before = useResource(keyOf(which), (signal) => readDetail(which, signal));
  if (before.error !== null) return <Problem error={before.error} subject="event" namespace={namespace} onRetry={before.reload} />;
  if (before.value === null) return <Skeleton />;
  if (!before.value.input || !after.input) {
    return (
      <section class="block">
        <p class="muted">The previous input, #{previous.sequence}, cannot be shown, and so not be compared.</p>
        <Notices notices={before.value.notices} open />
      </section>
    );
  }
  return <Compare before={before.value.input} previous={previous} after={after.input} onEntry={onEntry} historyRoute={historyRoute} />;
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
