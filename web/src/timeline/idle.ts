import type { View } from "./scale";

// Between the runs of a session can lie days in which nothing happens. The axis can leave them out: a Warp maps times to
// places on such an axis and back. Outside of breaks a second is as long as ever, so that durations can be compared.

/** A stretch of idle time, and where the short stretch that stands for it lies on the axis. */
export interface Break {
  readonly from: number;
  readonly to: number;
  readonly at: number;
  readonly width: number;
}

export interface Warp {
  readonly breaks: readonly Break[];
}

/** An axis that leaves nothing out. */
export const straight: Warp = { breaks: [] };

/** To leave idle time out is offered when more than this part of the whole time is idle. */
const offered = 0.8;
/** All breaks together take this part of the time that is not left out. */
const share = 0.25;
/** A stretch of this part of the busy time is long enough to be left out. */
const least = 0.02;

interface Span {
  readonly start: number;
  readonly end: number;
}

/** idleOf are the stretches in which no mark is, in order, and how much of the whole time they are. */
export function idleOf(marks: readonly Span[]): { gaps: View[]; part: number } {
  const sorted = marks.every((mark, i) => i === 0 || (marks[i - 1] as Span).start <= mark.start) ? marks : [...marks].sort((a, b) => a.start - b.start);
  const first = sorted[0]?.start ?? 0;
  const gaps: View[] = [];
  let reach = first;
  let idle = 0;
  for (const { start, end } of sorted) {
    if (start > reach) {
      gaps.push({ from: reach, to: start });
      idle += start - reach;
    }
    reach = Math.max(reach, end);
  }
  return { gaps, part: reach > first ? idle / (reach - first) : 0 };
}

/** warpOf is the axis without idle time; null where so little is idle that it is not worth it. */
export function warpOf(marks: readonly Span[]): Warp | null {
  const { gaps, part } = idleOf(marks);
  if (part <= offered) return null;
  const last = marks.reduce((end, mark) => Math.max(end, mark.end), -Infinity);
  const first = marks.reduce((start, mark) => Math.min(start, mark.start), Infinity);
  const busy = Math.max((last - first) * (1 - part), 1);
  const long = gaps.filter((gap) => gap.to - gap.from > busy * least);
  if (long.length === 0) return null;
  const width = Math.max((busy * share) / long.length, 1);
  const breaks: Break[] = [];
  let saved = 0;
  for (const gap of long) {
    const length = gap.to - gap.from;
    const short = Math.min(width, length);
    breaks.push({ from: gap.from, to: gap.to, at: gap.from - saved, width: short });
    saved += length - short;
  }
  return { breaks };
}

/** toAxis is where a time stands on the axis. */
export function toAxis({ breaks }: Warp, time: number): number {
  const last = before(breaks, (one) => one.from <= time);
  if (last === undefined) return time;
  if (time >= last.to) return last.at + last.width + (time - last.to);
  return last.at + ((time - last.from) / (last.to - last.from)) * last.width;
}

/** toTime is the time of a place on the axis. */
export function toTime({ breaks }: Warp, at: number): number {
  const last = before(breaks, (one) => one.at <= at);
  if (last === undefined) return at;
  if (at >= last.at + last.width) return last.to + (at - last.at - last.width);
  return last.from + ((at - last.at) / last.width) * (last.to - last.from);
}

/** A stretch of the axis without a break: times are places plus by. */
export interface Stretch extends View {
  readonly by: number;
}

/** stretches are the parts of a view between breaks. */
export function stretches({ breaks }: Warp, view: View): Stretch[] {
  const out: Stretch[] = [];
  let from = -Infinity;
  let by = 0;
  const add = (to: number) => {
    const part = { from: Math.max(from, view.from), to: Math.min(to, view.to), by };
    if (part.from < part.to) out.push(part);
  };
  for (const one of breaks) {
    add(one.at);
    from = one.at + one.width;
    by = one.to - from;
  }
  add(Infinity);
  return out;
}

/** visibleBreaks are the breaks with a part in a view, as stretches of the axis. */
export function visibleBreaks({ breaks }: Warp, view: View): View[] {
  return breaks.filter((one) => one.at + one.width >= view.from && one.at <= view.to).map((one) => ({ from: one.at, to: one.at + one.width }));
}

function before(breaks: readonly Break[], test: (one: Break) => boolean): Break | undefined {
  let low = 0;
  let high = breaks.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (test(breaks[mid] as Break)) low = mid + 1;
    else high = mid;
  }
  return breaks[low - 1];
}
