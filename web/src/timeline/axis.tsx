import type { ReadonlySignal } from "@preact/signals";
import { date, elapsed, shortTime, type Clock } from "../model/format";
import { clock } from "../ui/preferences";
import type { Part } from "./redraw";
import { position, tickStep, ticks, type Tick, type View } from "./scale";
import { useCanvas, type Sheet } from "./use-canvas";

/** Pixels that a label of the axis needs. */
const labelRoom = 96;

interface Props {
  view: ReadonlySignal<View>;
  extent: View;
  part: ReadonlySignal<Part>;
}

/** axisTicks are where the axis has labels and the tracks have lines. */
export function axisTicks(view: View, extent: View, width: number, clock: Clock | "elapsed"): Tick[] {
  // With one, a short axis can be without any.
  const most = Math.max(Math.floor(width / labelRoom), 2);
  return ticks(view, most, origin(view, extent, clock));
}

/** Where the lines of the axis stand, in CSS pixels: times of ticks below what the left end of the view is. */
const height = 34;
const startLine = 9;
const tickTop = 17;
const tickLine = 25;

/** Axis writes times above the tracks. It is drawn: labels that move with every step would be laid out with every step. */
export function Axis({ view, extent, part }: Props) {
  const canvas = useCanvas({
    view,
    part,
    height: () => height,
    paint: (ctx, sheet) => paint(ctx, sheet, extent, clock.value),
    of: [extent],
  });
  return <canvas class="tl-axis" ref={canvas} aria-hidden="true" />;
}

function paint(ctx: CanvasRenderingContext2D, { view, part, ratio, palette }: Sheet, extent: View, as: Clock | "elapsed"): void {
  const all = axisTicks(view, extent, part.width, as);
  const step = all[0]?.step ?? tickStep(view, 1);
  const zero = beginning(extent);
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, part.width, height);
  ctx.font = `11px ${palette.font}`;
  ctx.textBaseline = "middle";
  ctx.fillStyle = palette.line;
  for (const tick of all) ctx.fillRect(Math.round(position(view, tick.time) * part.width), tickTop, 1, height - tickTop);
  ctx.fillStyle = palette.muted;
  ctx.fillText(as === "elapsed" ? elapsed(view.from - zero, Math.min(step, 1_000)) : date(view.from, as), 6, startLine);
  for (const tick of all) {
    const label = as === "elapsed" ? elapsed(tick.time - zero, step) : shortTime(tick.time, as, step);
    ctx.fillText(label, Math.round(position(view, tick.time) * part.width) + 5, tickLine);
  }
}

/** The first mark stands a margin inside the extent. */
function beginning(extent: View): number {
  return extent.from + (extent.to - extent.from) * (0.02 / 1.04);
}

/** origin is what ticks are counted from: the first mark, or midnight of the clock. */
function origin(view: View, extent: View, clock: Clock | "elapsed"): number {
  if (clock === "elapsed") return beginning(extent);
  if (clock === "utc") return 0;
  return new Date(view.from / 1000).getTimezoneOffset() * 60_000_000;
}
