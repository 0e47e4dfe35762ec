import type { Agent, Counts, Entry, Notice, RealTime, Run, SessionSummary, Trajectory } from "../api/schema";
import { severities, type Placed, type Severity } from "../timeline/lanes";
import { kindOf } from "./kind";

/**
 * A session's trajectory as far as it was read. A page that only adds is added in place, so that a long reading costs what
 * its pages cost: whoever remembers something about it does so for the value itself, not for its lists.
 */
export interface Loaded {
  readonly session: SessionSummary;
  readonly agents: readonly Agent[];
  readonly runs: ReadonlyMap<string, Run>;
  /** Timed entries in the order of capture, then those without a time. */
  readonly entries: readonly Entry[];
  readonly byId: ReadonlyMap<string, number>;
  /** The indexes of each agent's entries, ascending. */
  readonly byAgent: ReadonlyMap<string, readonly number[]>;
  /** How many of the entries have a time. */
  readonly timed: number;
  /** Whether there are events of a kind that the page does not know. */
  readonly unknown: boolean;
  /** How many entries that the viewer lists the last page added. */
  readonly added: number;
  /** How many of the oldest entries were let go because there are more than the page holds. */
  readonly dropped: number;
  readonly notices: readonly Notice[];
  readonly realTime: RealTime;
  readonly counts: Counts;
  /** What the next request passes as `after`. */
  readonly cursor: string;
  /** Whether `cursor` leads to a further page of the same reading. */
  readonly partial: boolean;
}

interface Lists {
  readonly entries: Entry[];
  readonly byId: Map<string, number>;
  readonly byAgent: Map<string, number[]>;
  readonly timed: number;
  readonly unknown: boolean;
}

/** join adds a page to what was read before. An entry that comes again replaces the older one of its id. */
export function join(before: Loaded | null, page: Trajectory): Loaded {
  const read = [...page.entries, ...page.untimed];
  share(read);
  let added = 0;
  let again = false;
  for (const entry of read) {
    if (before?.byId.has(entry.id)) again = true;
    else if (!entry.hidden) added++;
  }
  const runs = new Map(before?.runs);
  for (const run of page.runs) runs.set(run.uid, run);
  return {
    session: page.session,
    agents: page.agents,
    runs,
    ...(before === null ? index(inOrder(read)) : !again && follows(before, read) ? append(before, read) : merge(before, read)),
    added,
    dropped: before?.dropped ?? 0,
    notices: page.notices,
    realTime: page.realTime,
    counts: page.counts,
    cursor: page.next ?? page.cursor,
    partial: page.next !== undefined,
  };
}

/** newest lets the oldest entries go where there are more than so many. */
export function newest(loaded: Loaded, most: number): Loaded {
  const over = loaded.entries.length - most;
  if (over <= 0) return loaded;
  return { ...loaded, ...index(loaded.entries.slice(over)), dropped: loaded.dropped + over };
}

/** The fields of entries whose values come again and again. Parsed JSON has a text of its own for each of them. */
const repeated = ["agent", "title", "model", "server", "event", "requestExecutionId", "responseId", "inputId"] as const;

/** share lets equal texts of a page's entries be one, which makes a long session half as large in memory. */
function share(entries: readonly Entry[]): void {
  const texts = new Map<string, string>();
  const runs = new Map<string, NonNullable<Entry["run"]>>();
  for (const entry of entries) {
    for (const field of repeated) {
      const text = entry[field];
      if (text === undefined) continue;
      const known = texts.get(text);
      if (known === undefined) texts.set(text, text);
      else entry[field] = known;
    }
    if (entry.run === undefined) continue;
    const known = runs.get(entry.run.uid);
    if (known === undefined) runs.set(entry.run.uid, entry.run);
    else if (known.name === entry.run.name) entry.run = known;
  }
}

const timeOf = (entry: Entry): number => entry.capturedAt ?? Infinity;

/** follows says whether entries can stand behind those that were read before. */
function follows(before: Loaded, read: readonly Entry[]): boolean {
  let last = before.entries.length === 0 ? -Infinity : timeOf(before.entries[before.entries.length - 1] as Entry);
  for (const entry of read) {
    const time = timeOf(entry);
    if (time < last) return false;
    last = time;
  }
  return true;
}

function append(before: Loaded, read: readonly Entry[]): Lists {
  // The lists are those of index: nothing else makes them.
  const entries = before.entries as Entry[];
  const byId = before.byId as Map<string, number>;
  const byAgent = before.byAgent as Map<string, number[]>;
  let { timed, unknown } = before;
  for (const entry of read) {
    const at = entries.push(entry) - 1;
    byId.set(entry.id, at);
    const own = byAgent.get(entry.agent);
    if (own) own.push(at);
    else byAgent.set(entry.agent, [at]);
    if (entry.capturedAt !== undefined) timed++;
    unknown ||= kindOf(entry) === "unknown";
  }
  return { entries, byId, byAgent, timed, unknown };
}

function merge(before: Loaded, read: readonly Entry[]): Lists {
  const entries = [...before.entries];
  for (const entry of read) {
    const at = before.byId.get(entry.id);
    if (at === undefined) entries.push(entry);
    else entries[at] = entry;
  }
  return index(inOrder(entries));
}

function index(entries: readonly Entry[]): Lists {
  return append({ entries: [], byId: new Map(), byAgent: new Map(), timed: 0, unknown: false } as unknown as Loaded, entries);
}

/** Pages come in order, so that there is work only where a later reading brought something captured earlier. */
function inOrder(entries: Entry[]): Entry[] {
  const sorted = entries.every((entry, i) => i === 0 || timeOf(entries[i - 1] ?? entry) <= timeOf(entry));
  if (sorted) return entries;
  return entries
    .map((entry, i) => ({ entry, i }))
    .sort((a, b) => compare(timeOf(a.entry), timeOf(b.entry)) || compare(a.entry.agent, b.entry.agent) || a.i - b.i)
    .map(({ entry }) => entry);
}

function compare<T extends number | string>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** severityOf says how grave an entry's outcome is. */
export function severityOf(entry: Entry): Severity {
  switch (entry.status) {
    case "failed":
    case "rejected":
    case "error":
    case "unknown":
      return "error";
    case "cancelled":
      return "cancelled";
    case "pending":
    case "declared":
    case "running":
    case "unfinished":
      return "open";
    default:
      return severities[0];
  }
}

/** A time of an entry and how far it goes; end equals start for an instant and for what has not ended. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** spanOf is where an entry stands on the axis; null without a recorded time. A model input is an instant. */
export function spanOf(entry: Entry): Span | null {
  if (entry.capturedAt === undefined) return null;
  const start = entry.startedAt ?? entry.capturedAt;
  if (entry.type === "modelInput") return { start: entry.capturedAt, end: entry.capturedAt };
  return { start, end: Math.max(entry.endedAt ?? entry.capturedAt, start) };
}

/** durationOf is how long an entry took in microseconds; null when that was not recorded. */
export function durationOf(entry: Entry): number | null {
  const span = spanOf(entry);
  return span === null || span.end === span.start ? null : span.end - span.start;
}

/** place says what of the entries stands on the timeline. */
export function place(entries: readonly Entry[]): Placed[] {
  const out: Placed[] = [];
  entries.forEach((entry, index) => {
    const kind = kindOf(entry);
    const span = spanOf(entry);
    if (kind === null || span === null) return;
    out.push({ index, agent: entry.agent, kind, severity: severityOf(entry), start: span.start, end: span.end });
  });
  return out;
}

/** agentLabel is what an agent is called on the page. */
export function agentLabel(agent: Pick<Agent, "id" | "kind" | "name">): string {
  return agent.kind === "main" ? "main" : (agent.name ?? agent.id);
}
