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
}

const deepest = 4;

/** rowOf says in which row of its agent a kind stands. */
export function rowOf(kind: Kind): Row {
  return kind === "tool" || kind === "mcp" ? "tools" : "model";
}

/** lanes makes two lanes for each agent in the given order, also where an agent has nothing to show. */
export function lanes(agents: readonly string[], events: readonly Placed[]): Lane[] {
  const buckets = new Map<string, Placed[]>();
  for (const agent of agents) {
    buckets.set(`${agent}/model`, []);
    buckets.set(`${agent}/tools`, []);
  }
  for (const event of events) buckets.get(`${event.agent}/${rowOf(event.kind)}`)?.push(event);
  return agents.flatMap((agent) => [
    lane(agent, "model", buckets.get(`${agent}/model`) ?? []),
    lane(agent, "tools", buckets.get(`${agent}/tools`) ?? []),
  ]);
}

function lane(agent: string, row: Row, marks: Placed[]): Lane {
  marks.sort((a, b) => a.start - b.start || a.index - b.index);
  const n = marks.length;
  const out = {
    agent,
    row,
    depth: 1,
    starts: new Float64Array(n),
    ends: new Float64Array(n),
    reach: new Float64Array(n),
    kinds: new Uint8Array(n),
    severities: new Uint8Array(n),
    subs: new Uint8Array(n),
    events: new Int32Array(n),
  };
  const busy = new Float64Array(deepest).fill(-Infinity);
  let reach = -Infinity;
  marks.forEach((mark, i) => {
    reach = Math.max(reach, mark.end);
    out.starts[i] = mark.start;
    out.ends[i] = mark.end;
    out.reach[i] = reach;
    out.kinds[i] = kinds.indexOf(mark.kind);
    out.severities[i] = severities.indexOf(mark.severity);
    out.events[i] = mark.index;
    if (row === "model") return;
    // The first sub-row that is free, or the one that is free soonest when all are taken.
    let sub = busy.findIndex((end) => end <= mark.start);
    if (sub < 0) sub = busy.indexOf(Math.min(...busy));
    busy[sub] = Math.max(busy[sub] ?? 0, mark.end);
    out.subs[i] = sub;
    out.depth = Math.max(out.depth, sub + 1);
  });
  return out;
}

/** firstVisible is the first mark that does not end left of a time. */
export function firstVisible(lane: Lane, time: number): number {
  let low = 0;
  let high = lane.reach.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if ((lane.reach[mid] ?? 0) < time) low = mid + 1;
    else high = mid;
  }
  return low;
}

/** A stretch of equal pixels of one sub-row. */
export interface Run {
  readonly sub: number;
  readonly x: number;
  readonly width: number;
  readonly kind: number;
  readonly severity: number;
  readonly selected: boolean;
}

export interface Raster {
  readonly view: View;
  /** The width in pixels, and the least width of a mark in pixels. */
  readonly width: number;
  readonly least: number;
  /** The selected event's index, or -1. */
  readonly selected: number;
}

/** How many pixels points keep from each other, and how many of a mark are in view where it has words. */
export interface Room {
  readonly points: number;
  readonly words: number;
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

export interface Picture {
  readonly runs: readonly Run[];
  readonly points: readonly Point[];
  readonly wide: readonly Wide[];
}

const instant = kinds.indexOf("input");

/**
 * rasterise says what each pixel of a lane shows. Marks narrower than a pixel are merged and none is lost: a pixel shows the
 * selected mark, else the gravest one, else the one that started last. Points that would cover each other are left out, but
 * for the selected one and errors.
 */
export function rasterise(lane: Lane, r: Raster, room: Room): Picture {
  const cells = new Uint8Array(r.width * lane.depth);
  const points: Point[] = [];
  const wide: Wide[] = [];
  const scale = r.width / (r.view.to - r.view.from);
  let pointed = -Infinity;
  for (let i = firstVisible(lane, r.view.from); i < lane.starts.length; i++) {
    const start = lane.starts[i] ?? 0;
    if (start > r.view.to) break;
    const end = lane.ends[i] ?? 0;
    if (end < r.view.from) continue;
    const event = lane.events[i] ?? -1;
    const kind = lane.kinds[i] ?? 0;
    const sub = lane.subs[i] ?? 0;
    const selected = event === r.selected;
    const severity = lane.severities[i] ?? 0;
    const x = Math.floor((start - r.view.from) * scale);
    let right = Math.ceil((end - r.view.from) * scale);
    // Neighbours that touch keep a pixel between them where there is room for one.
    if (right - x > 4 * r.least) right -= 1;
    right = Math.max(right, x + (selected || severity === 3 ? r.least + 1 : r.least));
    const left = Math.max(x, 0);
    const stop = Math.min(right, r.width);
    const value = 1 + kind + (severity << 3) + (selected ? 64 : 0);
    for (let at = sub * r.width + left; at < sub * r.width + stop; at++) {
      if (value >> 3 >= (cells[at] ?? 0) >> 3) cells[at] = value;
    }
    if (kind === instant) {
      if (x - pointed < room.points && !selected && severity !== 3) continue;
      pointed = x;
      points.push({ x, severity, selected });
    } else if (stop - left >= room.words) wide.push({ sub, x, right, kind, severity, event });
  }
  // The grave ones come last and are drawn over the others.
  const rank = (point: Point) => point.severity + (point.selected ? severities.length : 0);
  points.sort((a, b) => rank(a) - rank(b));
  return { runs: runs(cells, r.width, lane.depth), points, wide };
}

function runs(cells: Uint8Array, width: number, depth: number): Run[] {
  const out: Run[] = [];
  for (let sub = 0; sub < depth; sub++) {
    const offset = sub * width;
    for (let x = 0; x < width; ) {
      const value = cells[offset + x] ?? 0;
      let end = x + 1;
      while (end < width && cells[offset + end] === value) end++;
      if (value !== 0) {
        out.push({ sub, x, width: end - x, kind: (value & 7) - 1, severity: (value >> 3) & 7, selected: value >= 64 });
      }
      x = end;
    }
  }
  return out;
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

/** isVisible says whether a mark has a part in the view. */
export function isVisible(view: View, start: number, end: number): boolean {
  return position(view, end) >= 0 && position(view, start) <= 1;
}
