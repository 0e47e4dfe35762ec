import { date, elapsed, shortTime, type Clock } from "../model/format";
import { position, tickStep, ticks, type Tick, type View } from "./scale";

/** Pixels that a label of the axis needs. */
const labelRoom = 96;

interface Props {
  view: View;
  extent: View;
  width: number;
  clock: Clock | "elapsed";
}

/** axisTicks are where the axis has labels and the tracks have lines. */
export function axisTicks(view: View, extent: View, width: number, clock: Clock | "elapsed"): Tick[] {
  const most = Math.max(Math.floor(width / labelRoom), 1);
  return ticks(view, most, origin(view, extent, clock));
}

/** Axis writes times above the tracks. */
export function Axis({ view, extent, width, clock }: Props) {
  const all = axisTicks(view, extent, width, clock);
  const step = tickStep(view, Math.max(Math.floor(width / labelRoom), 1));
  const zero = beginning(extent);
  const start = clock === "elapsed" ? elapsed(view.from - zero, Math.min(step, 1_000)) : date(view.from, clock);
  return (
    <div class="tl-axis" aria-hidden="true">
      <span class="tl-start">{start}</span>
      {all.map((tick) => (
        <span key={tick.time} class="tl-tick" style={{ left: `${position(view, tick.time) * 100}%` }}>
          {clock === "elapsed" ? elapsed(tick.time - zero, step) : shortTime(tick.time, clock, step)}
        </span>
      ))}
    </div>
  );
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
