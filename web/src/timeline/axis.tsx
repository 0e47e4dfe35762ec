import type { ReadonlySignal } from "@preact/signals";
import { date, elapsed, shortTime, type Clock } from "../model/format";
import { stretches, toTime, visibleBreaks, type Warp } from "./idle";
import { clock } from "../ui/preferences";
import type { Part } from "./redraw";
import { position, tickStep, ticks, type Tick, type View } from "./scale";
import { useCanvas, type Sheet } from "./use-canvas";

/** Pixels that a label of the axis needs. */
const labelRoom = 96;

interface Props {
  view: ReadonlySignal<View>;
  extent: View;
  warp: Warp;
  part: ReadonlySignal<Part>;
  /** Whether there is anything on the axis. */
  empty: boolean;
}

/** axisTicks are where the axis has labels and the tracks have lines. Beside a break there is none without room for its label. */
export function axisTicks(view: View, extent: View, width: number, clock: Clock | "elapsed", warp: Warp): Tick[] {
  // With one, a short axis can be without any.
  const most = Math.max(Math.floor(width / labelRoom), 2);
  const step = tickStep(view, most);
  const room = ((view.to - view.from) / Math.max(width, 1)) * labelRoom;
  const all: Tick[] = [];
  for (const { from, to, by } of stretches(warp, view)) {
    for (const tick of ticks({ from: from + by, to: to + by }, step, origin(view, extent, clock, warp))) {
      const at = tick.at - by;
      if (warp.breaks.length === 0 || at - (all.at(-1)?.at ?? -Infinity) >= room) all.push({ ...tick, at });
    }
  }
  return all;
}

/** Where the lines of the axis stand, in CSS pixels: times of ticks below what the left end of the view is. */
const height = 34;
const startLine = 9;
const tickTop = 17;
const tickLine = 25;

/** Axis writes times above the tracks. It is drawn: labels that move with every step would be laid out with every step. */
export function Axis({ view, extent, warp, part, empty }: Props) {
  const canvas = useCanvas({
    view,
    part,
    height: () => height,
    paint: (ctx, sheet) => {
      const as = clock.value;
      ctx.setTransform(sheet.ratio, 0, 0, sheet.ratio, 0, 0);
      ctx.fillStyle = sheet.palette.ground;
      ctx.fillRect(0, 0, sheet.part.width, height);
      if (!empty) paint(ctx, sheet, extent, as, warp);
    },
    of: [extent, warp, empty],
  });
  return <canvas class="tl-axis" ref={canvas} aria-hidden="true" />;
}

function paint(ctx: CanvasRenderingContext2D, { view, part, palette }: Sheet, extent: View, as: Clock | "elapsed", warp: Warp): void {
  const all = axisTicks(view, extent, part.width, as, warp);
  const step = all[0]?.step ?? tickStep(view, 1);
  const zero = beginning(extent, warp);
  ctx.font = `11px ${palette.font}`;
  ctx.textBaseline = "middle";
  ctx.fillStyle = palette.line;
  for (const tick of all) ctx.fillRect(Math.round(position(view, tick.at) * part.width), tickTop, 1, height - tickTop);
  for (const one of visibleBreaks(warp, view)) {
    for (const edge of [one.from, one.to]) ctx.fillRect(Math.round(position(view, edge) * part.width), tickTop - 4, 1, height - tickTop + 4);
  }
  ctx.fillStyle = palette.muted;
  const from = toTime(warp, view.from);
  ctx.fillText(as === "elapsed" ? elapsed(from - zero, Math.min(step, 1_000)) : date(from, as), 6, startLine);
  for (const tick of all) {
    const label = as === "elapsed" ? elapsed(tick.time - zero, step) : shortTime(tick.time, as, step);
    ctx.fillText(label, Math.round(position(view, tick.at) * part.width) + 5, tickLine);
  }
}

/** The first mark stands a margin inside the extent. */
function beginning(extent: View, warp: Warp): number {
  return toTime(warp, extent.from + (extent.to - extent.from) * (0.02 / 1.04));
}

/** origin is what ticks are counted from: the first mark, or midnight of the clock. */
function origin(view: View, extent: View, clock: Clock | "elapsed", warp: Warp): number {
  if (clock === "elapsed") return beginning(extent, warp);
  if (clock === "utc") return 0;
  return new Date(toTime(warp, view.from) / 1000).getTimezoneOffset() * 60_000_000;
}
