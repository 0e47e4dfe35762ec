import type { ReadonlySignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { redraw, type Part } from "./redraw";
import { dragThumb, pan, thumb, type View } from "./scale";

interface Props {
  view: ReadonlySignal<View>;
  /** The view when it has come to rest: what is read out need not follow every step. */
  settled: ReadonlySignal<View>;
  part: ReadonlySignal<Part>;
  extent: View;
  controls: string;
  onChange: (view: View) => void;
}

/** The thumb's least part of the track, so that it can be caught. */
const least = 0.04;

/** ScrollBar moves the view in time. A browser's own could not: an hour at full zoom is wider than a page can be. */
export function ScrollBar({ view: shown, settled, part, extent, controls, onChange }: Props) {
  const view = () => shown.peek();
  const drag = useRef<{ x: number; view: View } | null>(null);
  const bar = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const rest = thumb(settled.value, extent, least);
  // The thumb is moved and stretched as a picture: nothing is laid out for a step of the wheel.
  useEffect(
    () =>
      redraw(shown, part, (now, { width }) => {
        const { start, size } = thumb(now, extent, least);
        if (box.current) box.current.style.transform = `translateX(${(start * width).toFixed(2)}px) scaleX(${size.toFixed(5)})`;
      }),
    [extent],
  );
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -0.1, ArrowRight: 0.1, PageUp: -0.9, PageDown: 0.9, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const far = (extent.to - extent.from) / (view().to - view().from);
    onChange(pan(view(), extent, Math.min(Math.max(by, -far), far)));
  };
  return (
    <div
      class="tl-bar"
      ref={bar}
      role="scrollbar"
      tabIndex={0}
      aria-label="Part of the time that is shown"
      aria-controls={controls}
      aria-orientation="horizontal"
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={rest.size >= 1 ? 0 : Math.round((rest.start / (1 - rest.size)) * 100)}
      onKeyDown={onKeyDown}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        const track = event.currentTarget.getBoundingClientRect();
        const at = (event.clientX - track.left) / track.width;
        const { start, size } = thumb(view(), extent, least);
        // A press beside the thumb brings its middle there.
        const next = at >= start && at <= start + size ? view() : dragThumb(view(), extent, least, at - (start + size / 2));
        drag.current = { x: event.clientX, view: next };
        onChange(next);
      }}
      onPointerMove={(event) => {
        const width = Math.max(part.peek().width, 1);
        if (drag.current) onChange(dragThumb(drag.current.view, extent, least, (event.clientX - drag.current.x) / width));
      }}
      onPointerUp={() => (drag.current = null)}
      onPointerCancel={() => (drag.current = null)}
    >
      <div class="tl-thumb" ref={box} />
    </div>
  );
}
