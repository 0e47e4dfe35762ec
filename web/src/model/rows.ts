import type { Entry } from "../api/schema";
import { kindLabels, kindOf, type Kind } from "./kind";

/** A row of the event list. Event rows name their entry by its index. */
export type Row =
  | { readonly type: "run"; readonly uid: string; readonly name: string; readonly events: number }
  | { readonly type: "untimed"; readonly events: number }
  | { readonly type: "event"; readonly index: number };

export interface Filter {
  readonly agent: string;
  /** null for all. */
  readonly types: readonly Kind[] | null;
  readonly search: string;
}

export interface Rows {
  readonly rows: readonly Row[];
  /** Indexes of the listed entries, in the order of their rows. */
  readonly events: readonly number[];
  /** The row of each listed entry, and its place among the events. */
  readonly rowOf: ReadonlyMap<number, number>;
  readonly placeOf: ReadonlyMap<number, number>;
  /** Events of the agent that type and search filter away. */
  readonly filtered: number;
  /** Lifecycle records of the agent, which no filter shows. */
  readonly lifecycle: number;
}

/** rowsOf lists an agent's entries, grouped by run in the order in which the runs began; those without a time stand last. */
export function rowsOf(entries: readonly Entry[], filter: Filter): Rows {
  const words = filter.search.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const groups = new Map<string, { name: string; events: number[] }>();
  const untimed: number[] = [];
  let filtered = 0;
  let lifecycle = 0;
  entries.forEach((entry, index) => {
    if (entry.agent !== filter.agent) return;
    const kind = kindOf(entry);
    if (kind === null) {
      lifecycle++;
      return;
    }
    if ((filter.types !== null && !filter.types.includes(kind)) || !matches(entry, kind, words)) {
      filtered++;
      return;
    }
    if (entry.capturedAt === undefined) {
      untimed.push(index);
      return;
    }
    const uid = entry.run?.uid ?? "";
    const group = groups.get(uid);
    if (group) group.events.push(index);
    else groups.set(uid, { name: entry.run?.name ?? "", events: [index] });
  });
  return { ...flat(groups, untimed), filtered, lifecycle };
}

function flat(groups: ReadonlyMap<string, { name: string; events: number[] }>, untimed: readonly number[]): Omit<Rows, "filtered" | "lifecycle"> {
  const rows: Row[] = [];
  const events: number[] = [];
  const rowOf = new Map<number, number>();
  const placeOf = new Map<number, number>();
  const add = (index: number) => {
    rowOf.set(index, rows.length);
    placeOf.set(index, events.length);
    rows.push({ type: "event", index });
    events.push(index);
  };
  for (const [uid, group] of groups) {
    rows.push({ type: "run", uid, name: group.name, events: group.events.length });
    group.events.forEach(add);
  }
  if (untimed.length > 0) rows.push({ type: "untimed", events: untimed.length });
  untimed.forEach(add);
  return { rows, events, rowOf, placeOf };
}

/** matches looks at what the index has of an entry: contents are not loaded and not searched. */
function matches(entry: Entry, kind: Kind, words: readonly string[]): boolean {
  if (words.length === 0) return true;
  const text = [
    `#${entry.sequence}`,
    kindLabels[kind],
    entry.title,
    entry.status,
    entry.server,
    entry.model,
    entry.stopReason,
    entry.toolCallId,
    entry.run?.name,
    entry.purpose,
  ]
    .join("\n")
    .toLowerCase();
  return words.every((word) => text.includes(word));
}

/** step is the listed event before or after one that may itself not be listed. */
export function step(rows: Rows, from: number | null, by: 1 | -1): number | null {
  if (rows.events.length === 0) return null;
  if (from === null) return (by === 1 ? rows.events[0] : rows.events.at(-1)) ?? null;
  const at = rows.placeOf.get(from);
  if (at !== undefined) return rows.events[at + by] ?? null;
  const next = by === 1 ? rows.events.find((index) => index > from) : rows.events.findLast((index) => index < from);
  return next ?? null;
}

/** stepRun is the first event of the run before or after the one that an event stands in. */
export function stepRun(rows: Rows, from: number | null, by: 1 | -1): number | null {
  const heads = rows.rows.flatMap((row, at) => (row.type === "event" ? [] : [at]));
  const at = from === null ? -1 : (rows.rowOf.get(from) ?? -1);
  const head = by === 1 ? heads.find((row) => row > at) : heads.filter((row) => row < at).at(-2);
  if (head === undefined) return null;
  const first = rows.rows[head + 1];
  return first?.type === "event" ? first.index : null;
}

/** stepTo is the next or previous listed event for which a test holds. */
export function stepTo(rows: Rows, from: number | null, by: 1 | -1, test: (index: number) => boolean): number | null {
  for (let at = step(rows, from, by); at !== null; at = step(rows, at, by)) {
    if (test(at)) return at;
  }
  return null;
}
