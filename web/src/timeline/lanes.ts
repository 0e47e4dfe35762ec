import { kinds, type Kind } from "../model/kind";
import { position, type View } from "./scale";

// What the timeline draws: per agent one lane for the model and one for tools, whatever the list below shows. A lane keeps its
// marks in typed arrays sorted by start, so that a hundred thousand of them are walked through in a frame.

export type Row = "model" | "tools";

/** From harmless to grave: where marks share a pixel, the gravest shows. */
export const severities = ["normal", "open", "cancelled", "error"] as const;
export type Severity = (typeof severities)[number];

/** What the timeline needs to know of an event. Times are microseconds; end equals start for an instant. */
export interface Placed {
  readonly index: number;
  readonly agent: string;
  readonly kind: Kind;
  readonly severity: Severity;
  readonly start: number;
  readonly end: number;
}

export interface Lane {
  readonly agent: string;
  readonly row: Row;
  /** How many sub-rows there are: concurrent tool calls stand one below the other, up to four. */
  readonly depth: number;
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  /** reach[i] is the latest end of marks 0..i: what lies wholly left of a view is found by bisection. */
  readonly reach: Float64Array;
  readonly kinds: Uint8Array;
  readonly severities: Uint8Array;
  readonly subs: Uint8Array;
  /** The events' indexes. */
  readonly events: Int32Array;
  /** Of each sub-row what is drawn: all of its marks first, then ever coarser pictures of them. */
  readonly levels: readonly (readonly Level[])[];
  /** The positions of instants among the marks, and of those instants that are errors. */
  readonly instants: Int32Array;
  readonly graveInstants: Int32Array;
}

/** A sub-row's marks for a scale: those that are shorter than the grain and nearer to each other are one. */
export interface Level {
  readonly grain: number;
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  readonly reach: Float64Array;
  /** What a pixel shows: 1 + kind, and above it the severity. */
  readonly values: Uint8Array;
  /** The events' indexes; -1 where several marks are one. */
  readonly events: Int32Array;
}

const deepest = 4;

const kindNumbers = numbers(kinds);
const severityNumbers = numbers(severities);

function numbers<T extends string>(all: readonly T[]): Readonly<Record<T, number>> {
  return Object.fromEntries(all.map((one, n) => [one, n])) as Record<T, number>;
}

/** rowOf says in which row of its agent a kind stands. */
export function rowOf(kind: Kind): Row {
  return kind === "tool" || kind === "mcp" ? "tools" : "model";
}

/** lanes makes two lanes for each agent in the given order, also where an agent has nothing to show. */
export function lanes(agents: readonly string[], events: readonly Placed[]): Lane[] {
  const buckets = new Map(agents.map((agent) => [agent, { model: [] as Placed[], tools: [] as Placed[] }]));
  for (const event of events) buckets.get(event.agent)?.[rowOf(event.kind)].push(event);
  return [...buckets].flatMap(([agent, { model, tools }]) => [lane(agent, "model", model), lane(agent, "tools", tools)]);
}

function lane(agent: string, row: Row, marks: Placed[]): Lane {
  const before = (a: Placed, b: Placed) => a.start - b.start || a.index - b.index;
  // They mostly come in order.
  if (marks.some((mark, i) => i > 0 && before(marks[i - 1] ?? mark, mark) > 0)) marks.sort(before);
  const n = marks.length;
  const out = {
    starts: new Float64Array(n),
    ends: new Float64Array(n),
    reach: new Float64Array(n),
    kinds: new Uint8Array(n),
    severities: new Uint8Array(n),
    subs: new Uint8Array(n),
    events: new Int32Array(n),
  };
  const busy = new Float64Array(deepest).fill(-Infinity);
  const instants: number[] = [];
  let reach = -Infinity;
  let depth = 1;
  for (let i = 0; i < n; i++) {
    const mark = marks[i] as Placed;
    reach = Math.max(reach, mark.end);
    out.starts[i] = mark.start;
    out.ends[i] = mark.end;
    out.reach[i] = reach;
    out.kinds[i] = kindNumbers[mark.kind];
    out.severities[i] = severityNumbers[mark.severity];
    out.events[i] = mark.index;
    if (mark.kind === "input") instants.push(i);
    if (row === "model") continue;
    const sub = freeSub(busy, mark.start);
    busy[sub] = Math.max(busy[sub] ?? 0, mark.end);
    out.subs[i] = sub;
    depth = Math.max(depth, sub + 1);
  }
  return {
    agent,
    row,
    depth,
    ...out,
    levels: Array.from({ length: depth }, (_, sub) => levels(finest(out, sub, depth))),
    instants: Int32Array.from(instants),
    graveInstants: Int32Array.from(instants.filter((i) => out.severities[i] === grave)),
  };
}

const grave = severities.indexOf("error");

/** freeSub is the first sub-row that is free, or the one that is free soonest when all are taken. */
function freeSub(busy: Float64Array, start: number): number {
  let soonest = 0;
  for (let sub = 0; sub < busy.length; sub++) {
    if ((busy[sub] ?? 0) <= start) return sub;
    if ((busy[sub] ?? 0) < (busy[soonest] ?? 0)) soonest = sub;
  }
  return soonest;
}

type Marks = Pick<Lane, "starts" | "ends" | "reach" | "kinds" | "severities" | "subs" | "events">;

function finest(marks: Marks, sub: number, depth: number): Level {
  const values = marks.kinds.map((kind, i) => 1 + kind + ((marks.severities[i] ?? 0) << 3));
  if (depth === 1) return { grain: 0, starts: marks.starts, ends: marks.ends, reach: marks.reach, values, events: marks.events };
  const own = (_: unknown, i: number) => marks.subs[i] === sub;
  const ends = marks.ends.filter(own);
  return { grain: 0, starts: marks.starts.filter(own), ends, reach: reachOf(ends), values: values.filter(own), events: marks.events.filter(own) };
}

function reachOf(ends: Float64Array): Float64Array {
  let reach = -Infinity;
  return ends.map((end) => (reach = Math.max(reach, end)));
}

/** A picture of so few marks needs no coarser one; a coarser one is kept when it has no more than this part of the marks. */
const few = 512;
const worth = 0.6;
const leastGrain = 1_000;

function levels(finestLevel: Level): Level[] {
  const out = [finestLevel];
  if (finestLevel.starts.length <= few) return out;
  const sizes = sizesOf(finestLevel);
  let last = finestLevel;
  for (let n = 0; n < sizes.length && last.starts.length > few; n++) {
    // Most grains are not worth a picture: that is known before one is made.
    if ((sizes[n] ?? 0) > worth * last.starts.length) continue;
    const next = coarser(last, leastGrain * 2 ** n);
    out.push(next);
    last = next;
  }
  return out;
}

/** sizesOf is how many marks there are for each grain that is shorter than all of them: leastGrain, twice that, and so on. */
function sizesOf({ starts, ends, reach }: Level): number[] {
  const span = (reach.at(-1) ?? 0) - (starts[0] ?? 0);
  const sizes = new Array<number>(Math.max(Math.ceil(Math.log2(span / leastGrain)), 0)).fill(0);
  const grainOf = (i: number) => shortFrom((ends[i] as number) - (starts[i] as number));
  let before = grainOf(0);
  for (let i = 1; i < starts.length; i++) {
    const own = grainOf(i);
    const joined = Math.max(before, own, sharedFrom(starts[i - 1] as number, starts[i] as number));
    if (joined < sizes.length) sizes[joined] = (sizes[joined] ?? 0) + 1;
    before = own;
  }
  let left = starts.length;
  return sizes.map((joined) => (left -= joined));
}

/** shortFrom is the number of the first grain that a length is shorter than. */
function shortFrom(length: number): number {
  let n = 0;
  for (let grain = leastGrain; grain <= length; grain *= 2) n++;
  return n;
}

/** sharedFrom is the number of the first grain in which two times both are. */
function sharedFrom(one: number, other: number): number {
  let n = 0;
  for (let grain = leastGrain; Math.floor(one / grain) !== Math.floor(other / grain); grain *= 2) n++;
  return n;
}

/** coarser makes one of the marks that are shorter than a grain and begin in the same grain: it is as grave as the gravest of them. */
function coarser(level: Level, grain: number): Level {
  const n = level.starts.length;
  const [starts, ends, values, events] = [new Float64Array(n), new Float64Array(n), new Uint8Array(n), new Int32Array(n)];
  let size = 0;
  let slot = NaN;
  for (let i = 0; i < n; i++) {
    const start = level.starts[i] ?? 0;
    const end = level.ends[i] ?? 0;
    const value = level.values[i] ?? 0;
    const short = end - start < grain;
    const at = size - 1;
    if (short && Math.floor(start / grain) === slot) {
      ends[at] = Math.max(ends[at] ?? 0, end);
      events[at] = -1;
      if (value >> 3 >= (values[at] ?? 0) >> 3) values[at] = value;
      continue;
    }
    slot = short ? Math.floor(start / grain) : NaN;
    starts[size] = start;
    ends[size] = end;
    values[size] = value;
    events[size] = level.events[i] ?? -1;
    size++;
  }
  const cut = ends.slice(0, size);
  return { grain, starts: starts.slice(0, size), ends: cut, reach: reachOf(cut), values: values.slice(0, size), events: events.slice(0, size) };
}

/** firstVisible is the first mark that does not end left of a time. */
export function firstVisible({ reach }: Pick<Level, "reach">, time: number): number {
  return bisect(reach.length, (i) => (reach[i] ?? 0) < time);
}

/** bisect is the first of n places for which a test that holds at the beginning does not hold. */
function bisect(n: number, test: (i: number) => boolean, from = 0): number {
  let low = from;
  let high = n;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (test(mid)) low = mid + 1;
    else high = mid;
  }
  return low;
}

export interface Raster {
  readonly view: View;
  /** The width in pixels, and the least width of a mark in pixels. */
  readonly width: number;
  readonly least: number;
  /** The selected event's index, or -1. */
  readonly selected: number;
}

/** An instant that has a shape of its own. */
export interface Point {
  readonly x: number;
  readonly severity: number;
  readonly selected: boolean;
}

/** A mark that is wide enough for words: from x to right, which may lie outside of the view. */
export interface Wide {
  readonly sub: number;
  readonly x: number;
  readonly right: number;
  readonly kind: number;
  readonly severity: number;
  readonly event: number;
}

const instant = kinds.indexOf("input");

/** What a pixel's value stands for: nothing (0), or 1 + kind, the severity above it, and whether the mark is the selected one. */
export const kindIn = (value: number): number => (value & 7) - 1;
export const severityIn = (value: number): number => (value >> 3) & 7;
export const selectedIn = (value: number): boolean => value >= 64;

/** levelFor is the coarsest picture of a sub-row whose grain cannot be seen in pixels of a length of time. */
function levelFor(all: readonly Level[], pixel: number): Level {
  return all.findLast((level) => level.grain <= pixel / 2) ?? (all[0] as Level);
}

/**
 * rasterise writes into cells what each pixel of a lane shows, sub-row by sub-row, and returns the marks that have room for
 * words. Marks narrower than a pixel are merged and none is lost: a pixel shows the selected mark, else the gravest one, else
 * the one that started last.
 */
export function rasterise(lane: Lane, r: Raster, words: number, cells: Uint8Array): Wide[] {
  const wide: Wide[] = [];
  const scale = r.width / (r.view.to - r.view.from);
  cells.fill(0, 0, r.width * lane.depth);
  for (let sub = 0; sub < lane.depth; sub++) {
    const level = levelFor(lane.levels[sub] ?? [], 1 / scale);
    const { starts, ends, values, events } = level;
    for (let i = firstVisible(level, r.view.from); i < starts.length; i++) {
      const start = starts[i] as number;
      if (start > r.view.to) break;
      const end = ends[i] as number;
      if (end < r.view.from) continue;
      const value = values[i] as number;
      const { x, right } = pixelsOf(r, scale, start, end, value >> 3 === grave);
      const left = x < 0 ? 0 : x;
      const stop = right > r.width ? r.width : right;
      write(cells, sub * r.width + left, sub * r.width + stop, value);
      const event = events[i] as number;
      if (stop - left >= words && event >= 0 && kindIn(value) !== instant) {
        wide.push({ sub, x, right, kind: kindIn(value), severity: severityIn(value), event });
      }
    }
  }
  const at = r.selected < 0 ? -1 : lane.events.indexOf(r.selected);
  if (at < 0) return wide;
  const { x, right } = pixelsOf(r, scale, lane.starts[at] ?? 0, lane.ends[at] ?? 0, true);
  if (x >= r.width || right <= 0) return wide;
  const base = (lane.subs[at] ?? 0) * r.width;
  write(cells, base + Math.max(x, 0), base + Math.min(right, r.width), 64 + 1 + (lane.kinds[at] ?? 0) + ((lane.severities[at] ?? 0) << 3));
  return wide;
}

function write(cells: Uint8Array, from: number, to: number, value: number): void {
  const rank = value >> 3;
  for (let at = from; at < to; at++) if (rank >= (cells[at] as number) >> 3) cells[at] = value;
}

function pixelsOf(r: Raster, scale: number, start: number, end: number, important: boolean): { x: number; right: number } {
  const x = Math.floor((start - r.view.from) * scale);
  let right = Math.ceil((end - r.view.from) * scale);
  // Neighbours that touch keep a pixel between them where there is room for one.
  if (right - x > 4 * r.least) right -= 1;
  return { x, right: Math.max(right, x + r.least + (important ? 1 : 0)) };
}

/** eachRun visits the stretches of equal pixels of a row of cells that begins at an offset. */
export function eachRun(cells: Uint8Array, offset: number, width: number, visit: (x: number, end: number, value: number) => void): void {
  for (let x = 0; x < width; ) {
    const value = cells[offset + x] as number;
    let end = x + 1;
    while (end < width && cells[offset + end] === value) end++;
    if (value !== 0) visit(x, end, value);
    x = end;
  }
}

/** points are the instants that have room for a shape of their own; the selected one and errors always have it. The grave ones come last. */
export function points(lane: Lane, r: Raster, room: number): Point[] {
  const out: Point[] = [];
  const scale = r.width / (r.view.to - r.view.from);
  const walk = (among: Int32Array, step: number) => {
    const time = (i: number) => lane.starts[among[i] ?? 0] ?? 0;
    let i = bisect(among.length, (at) => time(at) < r.view.from);
    while (i < among.length && time(i) <= r.view.to) {
      const at = among[i] ?? 0;
      const x = Math.floor((time(i) - r.view.from) * scale);
      out.push({ x, severity: lane.severities[at] ?? 0, selected: false });
      const next = r.view.from + (x + step) / scale;
      i = bisect(among.length, (other) => time(other) < next, i + 1);
    }
  };
  walk(lane.instants, room);
  walk(lane.graveInstants, 1);
  const at = r.selected < 0 ? -1 : lane.events.indexOf(r.selected);
  if (at >= 0 && lane.kinds[at] === instant) {
    const x = Math.floor(((lane.starts[at] ?? 0) - r.view.from) * scale);
    if (x >= 0 && x <= r.width) out.push({ x, severity: lane.severities[at] ?? 0, selected: true });
  }
  const rank = (point: Point) => point.severity + (point.selected ? severities.length : 0);
  return out.sort((a, b) => rank(a) - rank(b));
}

/** hit is the event at a pixel of a sub-row: the nearest one within slop pixels, the one drawn on top where several are. */
export function hit(lane: Lane, r: Raster, x: number, sub: number, slop: number): number | null {
  const scale = r.width / (r.view.to - r.view.from);
  const reach = (slop + r.least + 1) / scale;
  let best: number | null = null;
  let bestRank = Infinity;
  const from = r.view.from + x / scale - reach;
  const to = r.view.from + x / scale + reach;
  for (let i = firstVisible(lane, from); i < lane.starts.length; i++) {
    const start = lane.starts[i] ?? 0;
    if (start > to) break;
    if ((lane.ends[i] ?? 0) < from || lane.subs[i] !== sub) continue;
    const left = (start - r.view.from) * scale;
    const right = Math.max((lane.ends[i] ?? 0) - r.view.from, 0) * scale;
    const distance = Math.max(left - x, x - Math.max(right, left + r.least), 0);
    if (distance > slop) continue;
    // Distance first; then what rasterise puts on top.
    const onTop = (lane.events[i] === r.selected ? 8 : 0) + (lane.severities[i] ?? 0);
    const rank = Math.round(distance) * 16 - onTop;
    if (rank <= bestRank) {
      bestRank = rank;
      best = lane.events[i] ?? null;
    }
  }
  return best;
}

/** neighbour is the next (by = 1) or previous (by = -1) event of the lane that an event stands in. */
export function neighbour(lane: Lane, event: number, by: 1 | -1): number | null {
  const at = lane.events.indexOf(event);
  return at < 0 ? null : (lane.events[at + by] ?? null);
}

/** gapBefore is how long the row of a mark was idle before it; null where something reaches to it and for the first mark. */
export function gapBefore(lane: Lane, event: number): number | null {
  const at = lane.events.indexOf(event);
  const reach = lane.reach[at - 1];
  const gap = at < 1 || reach === undefined ? 0 : (lane.starts[at] ?? 0) - reach;
  return gap > 0 ? gap : null;
}

/** isVisible says whether a mark has a part in the view. */
export function isVisible(view: View, start: number, end: number): boolean {
  return position(view, end) >= 0 && position(view, start) <= 1;
}
