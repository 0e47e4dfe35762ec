import type { Agent, Counts, Entry, Notice, RealTime, Run, SessionSummary, Trajectory } from "../api/schema";
import { severities, type Placed, type Severity } from "../timeline/lanes";
import { kindOf } from "./kind";

/** A session's trajectory as far as it was read. Values are replaced, never changed. */
export interface Loaded {
  readonly session: SessionSummary;
  readonly agents: readonly Agent[];
  readonly runs: ReadonlyMap<string, Run>;
  /** Timed entries in the order of capture, then those without a time. */
  readonly entries: readonly Entry[];
  readonly byId: ReadonlyMap<string, number>;
  readonly notices: readonly Notice[];
  readonly realTime: RealTime;
  readonly counts: Counts;
  /** What the next request passes as `after`. */
  readonly cursor: string;
  /** Whether `cursor` leads to a further page of the same reading. */
  readonly partial: boolean;
}

/** join adds a page to what was read before. An entry that comes again replaces the older one of its id. */
export function join(before: Loaded | null, page: Trajectory): Loaded {
  const entries = new Map<string, Entry>();
  for (const entry of before?.entries ?? []) entries.set(entry.id, entry);
  for (const entry of page.entries) entries.set(entry.id, entry);
  for (const entry of page.untimed) entries.set(entry.id, entry);
  const runs = new Map(before?.runs);
  for (const run of page.runs) runs.set(run.uid, run);
  const sorted = inOrder([...entries.values()]);
  return {
    session: page.session,
    agents: page.agents,
    runs,
    entries: sorted,
    byId: new Map(sorted.map((entry, index) => [entry.id, index])),
    notices: page.notices,
    realTime: page.realTime,
    counts: page.counts,
    cursor: page.next ?? page.cursor,
    partial: page.next !== undefined,
  };
}

/** Pages come in order, so that there is work only where a later reading brought something captured earlier. */
function inOrder(entries: Entry[]): Entry[] {
  const time = (entry: Entry) => entry.capturedAt ?? Infinity;
  const sorted = entries.every((entry, i) => i === 0 || time(entries[i - 1] ?? entry) <= time(entry));
  if (sorted) return entries;
  return entries
    .map((entry, i) => ({ entry, i }))
    .sort((a, b) => compare(time(a.entry), time(b.entry)) || compare(a.entry.agent, b.entry.agent) || a.i - b.i)
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
