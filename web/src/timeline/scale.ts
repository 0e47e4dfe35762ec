// Time on the horizontal axis. Times are microseconds since the epoch, positions are fractions of the width of the tracks.

/** A stretch of time, from < to. */
export interface View {
  readonly from: number;
  readonly to: number;
}

/** The narrowest view: one millisecond over the whole width. */
export const narrowest = 1_000;

/** Room on either side of the extent, so that marks at its ends stand free. */
const margin = 0.02;

/** extentOf is the widest view for marks between first and last: a session of one instant gets a second around it. */
export function extentOf(first: number, last: number): View {
  const span = last - first;
  if (span <= 0) return { from: first - 500_000, to: first + 500_000 };
  const room = Math.max(span * margin, 1);
  return { from: first - room, to: last + room };
}

/** position is where a time stands: 0 at the left end of the view, 1 at its right end. */
export function position(view: View, time: number): number {
  return (time - view.from) / (view.to - view.from);
}

/** timeAt is the inverse of position. */
export function timeAt(view: View, at: number): number {
  return view.from + at * (view.to - view.from);
}

/**
 * zoom makes the view factor times as wide and leaves the time at the position where it is, unless that would show what
 * lies outside the extent.
 */
export function zoom(view: View, extent: View, at: number, factor: number): View {
  const width = clamp((view.to - view.from) * factor, Math.min(narrowest, extent.to - extent.from), extent.to - extent.from);
  const from = timeAt(view, at) - at * width;
  return inside({ from, to: from + width }, extent);
}

/** pan moves the view by a fraction of its width and keeps its width. */
export function pan(view: View, extent: View, by: number): View {
  const step = (view.to - view.from) * by;
  return inside({ from: view.from + step, to: view.to + step }, extent);
}

/** centre shows the time in the middle; a view that has it well inside is left as it is. */
export function reveal(view: View, extent: View, time: number): View {
  const at = position(view, time);
  if (at >= 0.05 && at <= 0.95) return view;
  return pan(view, extent, at - 0.5);
}

/** wheelFactor turns a wheel's movement into a factor for zoom. One notch of a mouse wheel is about a quarter. */
export function wheelFactor(deltaY: number, deltaMode: number): number {
  const pixels = deltaMode === 1 ? deltaY * 16 : deltaMode === 2 ? deltaY * 60 : deltaY;
  return Math.exp(clamp(pixels, -60, 60) * 0.005);
}

/** A line of the axis: a time, where on the axis it stands, and the step to the next one. */
export interface Tick {
  readonly time: number;
  readonly at: number;
  readonly step: number;
}

const second = 1_000_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const steps = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * second),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * minute),
  ...[1, 2, 3, 6, 12].map((n) => n * hour),
  ...[1, 2, 7, 14, 28].map((n) => n * day),
];

/** tickStep is the smallest pleasant step of which no more than so many fit into the view. */
export function tickStep(view: View, most: number): number {
  const least = (view.to - view.from) / Math.max(most, 1);
  if (least < second) {
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least) ?? second;
  }
  return steps.find((step) => step >= least) ?? Math.ceil(least / (28 * day)) * 28 * day;
}

/** ticks are the multiples of a step, counted from an origin, that lie between two times. */
export function ticks(between: View, step: number, origin: number): Tick[] {
  const out: Tick[] = [];
  const first = Math.ceil((between.from - origin) / step);
  for (let n = first; origin + n * step <= between.to; n++) out.push({ time: origin + n * step, at: origin + n * step, step });
  return out;
}

/** thumb is the part of a scroll bar's track that stands for the view, never shorter than least. */
export function thumb(view: View, extent: View, least: number): { start: number; size: number } {
  const span = extent.to - extent.from;
  const width = view.to - view.from;
  const size = clamp(width / span, Math.min(least, 1), 1);
  const free = span - width;
  const start = free <= 0 ? 0 : ((view.from - extent.from) / free) * (1 - size);
  return { start: clamp(start, 0, 1 - size), size };
}

/** dragThumb is the view after the thumb was moved by a fraction of the track. */
export function dragThumb(view: View, extent: View, least: number, by: number): View {
  const width = view.to - view.from;
  const span = extent.to - extent.from;
  const room = 1 - thumb(view, extent, least).size;
  if (room <= 0) return view;
  return pan(view, extent, ((by / room) * (span - width)) / width);
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}

function inside(view: View, extent: View): View {
  const width = view.to - view.from;
  if (width >= extent.to - extent.from) return extent;
  const from = clamp(view.from, extent.from, extent.to - width);
  return { from, to: from + width };
}
