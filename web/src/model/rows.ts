import type { Entry, Run } from "../api/schema";
import { approvalsOf } from "./approvals";
import { callIdsOf } from "./call-ids";
import { kinds, type Kind } from "./kind";
import { textsOf } from "./texts";
import type { Loaded } from "./trajectory";

/** What heads a group of rows. An outcome says why a run did not succeed, in as many rows as its words need. */
export type Head =
  | { readonly type: "run"; readonly uid: string; readonly name: string; readonly events: number }
  | { readonly type: "outcome"; readonly uid: string; readonly name: string; readonly lines: number }
  | { readonly type: "untimed"; readonly events: number };

/** A row of the event list. Event rows name their entry by its index. What an outcome takes further is filler. */
export type Row = Head | { readonly type: "event"; readonly index: number } | { readonly type: "filler" };

export interface Filter {
  readonly agent: string;
  /** null for all. */
  readonly types: readonly Kind[] | null;
  /** The name or UID of a run; null for all. */
  readonly run: string | null;
  readonly search: string;
}

/** What rows are made of. */
export type Source = Pick<Loaded, "entries" | "byAgent" | "runs">;

const filler = -0x7fffffff;

/** Rows are what the list shows, kept as numbers: a hundred thousand rows are made anew with every letter of a search. */
export class Rows {
  constructor(
    /** The index of an event, or ~n for the head number n. */
    private readonly lines: Int32Array,
    private readonly heads: readonly Head[],
    /** The rows of the heads, ascending. */
    private readonly headRows: readonly number[],
    /** Indexes of the listed entries, in the order of their rows. */
    readonly events: Int32Array,
    private readonly rowAt: Int32Array,
    private readonly placeAt: Int32Array,
    /** Events of the agent that filters leave out. */
    readonly filtered: number,
    /** Lifecycle records of the agent, which no filter shows. */
    readonly lifecycle: number,
  ) {}

  get count(): number {
    return this.lines.length;
  }

  at(row: number): Row | undefined {
    const line = this.lines[row];
    if (line === undefined) return undefined;
    if (line >= 0) return { type: "event", index: line };
    return line === filler ? { type: "filler" } : this.heads[~line];
  }

  /** rowOf is the row of an entry, undefined when it is not listed. */
  rowOf(index: number): number | undefined {
    const row = this.rowAt[index];
    return row === undefined || row < 0 ? undefined : row;
  }

  /** placeOf is the place of an entry among the listed ones, from 0. */
  placeOf(index: number): number | undefined {
    const place = this.placeAt[index];
    return place === undefined || place < 0 ? undefined : place;
  }

  /** headOf is the run or section that a row stands in. */
  headOf(row: number): Exclude<Head, { type: "outcome" }> | null {
    for (let at = this.headBefore(row); at >= 0; at--) {
      const head = this.heads[at];
      if (head && head.type !== "outcome") return head;
    }
    return null;
  }

  /** sections are the rows at which runs and sections begin. */
  sections(): number[] {
    return this.headRows.filter((_, n) => this.heads[n]?.type !== "outcome");
  }

  private headBefore(row: number): number {
    let low = 0;
    let high = this.headRows.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if ((this.headRows[mid] ?? 0) <= row) low = mid + 1;
      else high = mid;
    }
    return low - 1;
  }
}

interface Group {
  readonly uid: string;
  readonly name: string;
  readonly events: number[];
  /** When the run began, as far as that is known. */
  begins: number;
}

/**
 * rowsOf lists an agent's entries, grouped by run in the order in which the runs began; those without a time stand last. A run
 * has its head also when it has nothing to list: how it ended is all there is to know of it then.
 */
export function rowsOf({ entries, byAgent, runs }: Source, filter: Filter): Rows {
  const listed = new Set<Kind>(filter.types ?? kinds);
  const texts = textsOf(entries);
  const own = byAgent.get(filter.agent) ?? [];
  const matches = matcher(entries, own, filter.search);
  const groups = new Map<string, Group>();
  const untimed: number[] = [];
  let [filtered, lifecycle] = [0, 0];
  let last: Group | undefined;
  for (const index of own) {
    const kind = texts.kindOf(entries, index);
    if (kind === null) {
      lifecycle++;
      continue;
    }
    if (!listed.has(kind) || !matches(index, kind)) {
      filtered++;
      continue;
    }
    // To look at an entry itself is what costs most, so that it is done last.
    const entry = entries[index] as Entry;
    if (!inRun(entry, filter.run)) {
      filtered++;
      continue;
    }
    if (entry.capturedAt === undefined) {
      untimed.push(index);
      continue;
    }
    const uid = entry.run?.uid ?? "";
    if (last === undefined || last.uid !== uid) {
      last = groups.get(uid) ?? { uid, name: entry.run?.name ?? "", events: [], begins: runs.get(uid)?.startedAt ?? entry.capturedAt };
      groups.set(uid, last);
    }
    last.events.push(index);
  }
  bare(groups, runs, filter);
  return flat([...groups.values()].sort((a, b) => a.begins - b.begins), untimed, runs, entries.length, { filtered, lifecycle });
}

function inRun(entry: Entry, run: string | null): boolean {
  return run === null || entry.run?.uid === run || entry.run?.name === run;
}

/** bare adds the runs that have nothing to list, unless a filter asks for something that they do not have. */
function bare(groups: Map<string, Group>, runs: ReadonlyMap<string, Run>, filter: Filter): void {
  if (filter.types !== null) return;
  const words = wordsOf(filter.search);
  for (const run of runs.values()) {
    if (run.agent !== filter.agent || groups.has(run.uid)) continue;
    if (filter.run !== null && filter.run !== run.uid && filter.run !== run.name) continue;
    const text = `run ${run.name ?? run.uid} ${run.status} ${run.reason ?? ""} ${run.message ?? ""}`.toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    groups.set(run.uid, { uid: run.uid, name: run.name ?? "", events: [], begins: run.startedAt ?? run.endedAt ?? Infinity });
  }
}

/** How many letters of a message fit into one row of the narrowest list, and how many rows a message takes at most. */
const lettersPerRow = 75;
const mostLines = 4;

function linesOf(run: Run | undefined): number {
  if (run?.message === undefined || run.message === "" || run.status === "succeeded") return 0;
  return Math.min(Math.ceil(run.message.length / lettersPerRow), mostLines);
}

function flat(groups: readonly Group[], untimed: readonly number[], runs: ReadonlyMap<string, Run>, total: number, counts: { filtered: number; lifecycle: number }): Rows {
  const events = groups.reduce((sum, group) => sum + group.events.length, untimed.length);
  const extra = groups.reduce((sum, group) => sum + 1 + linesOf(runs.get(group.uid)), untimed.length > 0 ? 1 : 0);
  const lines = new Int32Array(events + extra);
  const order = new Int32Array(events);
  const rowAt = new Int32Array(total).fill(-1);
  const placeAt = new Int32Array(total).fill(-1);
  const heads: Head[] = [];
  const headRows: number[] = [];
  let [row, place] = [0, 0];
  const head = (one: Head) => {
    headRows.push(row);
    lines[row++] = ~(heads.push(one) - 1);
  };
  const add = (index: number) => {
    rowAt[index] = row;
    placeAt[index] = place;
    order[place++] = index;
    lines[row++] = index;
  };
  for (const { uid, name, events: own } of groups) {
    head({ type: "run", uid, name, events: own.length });
    const outcome = linesOf(runs.get(uid));
    if (outcome > 0) head({ type: "outcome", uid, name, lines: outcome });
    for (let line = 1; line < outcome; line++) lines[row++] = filler;
    own.forEach(add);
  }
  if (untimed.length > 0) head({ type: "untimed", events: untimed.length });
  untimed.forEach(add);
  return new Rows(lines, heads, headRows, order, rowAt, placeAt, counts.filtered, counts.lifecycle);
}

function wordsOf(search: string): string[] {
  return search.toLowerCase().split(/\s+/).filter((word) => word !== "");
}

/** matcher looks at what the index has of an entry: contents are not loaded and not searched. */
function matcher(entries: readonly Entry[], list: readonly number[], search: string): (index: number, kind: Kind) => boolean {
  const words = wordsOf(search);
  if (words.length === 0) return () => true;
  const texts = textsOf(entries);
  const tests = words.map((word) => {
    // By a text's number, once it was looked at.
    const found: boolean[] = [];
    const called = callIdsOf(list).having(entries, list, word);
    approvalsOf(list).having(entries, list, word, called);
    const numbered = /^#?\d+$/.test(word);
    return (index: number, kind: Kind): boolean => {
      const number = texts.numberOf(entries, index, kind);
      if ((found[number] ??= (texts.all[number] as string).includes(word)) || called.has(index)) return true;
      return numbered && `#${(entries[index] as Entry).sequence}`.includes(word);
    };
  });
  return tests.length === 1 ? (tests[0] as (typeof tests)[0]) : (index, kind) => tests.every((test) => test(index, kind));
}

/** step is the listed event before or after one that may itself not be listed. */
export function step(rows: Rows, from: number | null, by: 1 | -1): number | null {
  if (rows.events.length === 0) return null;
  if (from === null) return (by === 1 ? rows.events[0] : rows.events.at(-1)) ?? null;
  const at = rows.placeOf(from);
  if (at !== undefined) return rows.events[at + by] ?? null;
  const next = by === 1 ? rows.events.find((index) => index > from) : rows.events.findLast((index) => index < from);
  return next ?? null;
}

/** hit is the listed event before or after one, from the last on again from the first. */
export function hit(rows: Rows, from: number | null, by: 1 | -1): number | null {
  return step(rows, from, by) ?? step(rows, null, by);
}

/** stepRun is the first event of the run with events that stands before or after the one of an event. */
export function stepRun(rows: Rows, from: number | null, by: 1 | -1): number | null {
  const at = from === null ? -1 : (rows.rowOf(from) ?? -1);
  const firsts = rows.sections().flatMap((section) => {
    let row = section + 1;
    for (let next = rows.at(row); next?.type === "outcome" || next?.type === "filler"; next = rows.at(row)) row++;
    const first = rows.at(row);
    return first?.type === "event" ? [{ section, index: first.index }] : [];
  });
  const next = by === 1 ? firsts.find((first) => first.section > at) : firsts.filter((first) => first.section < at).at(-2);
  return next?.index ?? null;
}

/** stepTo is the next or previous listed event for which a test holds. */
export function stepTo(rows: Rows, from: number | null, by: 1 | -1, test: (index: number) => boolean): number | null {
  for (let at = step(rows, from, by); at !== null; at = step(rows, at, by)) {
    if (test(at)) return at;
  }
  return null;
}
