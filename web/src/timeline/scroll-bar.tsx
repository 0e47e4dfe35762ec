import type { ReadonlySignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { dragThumb, pan, thumb, type View } from "./scale";

interface Props {
  view: ReadonlySignal<View>;
  extent: View;
  controls: string;
  onChange: (view: View) => void;
}

/** The thumb's least part of the track, so that it can be caught. */
const least = 0.04;

/** ScrollBar moves the view in time. A browser's own could not: an hour at full zoom is wider than a page can be. */
export function ScrollBar({ view: shown, extent, controls, onChange }: Props) {
  const view = shown.value;
  const track = useRef<HTMLDivElement>(null);
  const drag = useRef<{ x: number; view: View } | null>(null);
  const { start, size } = thumb(view, extent, least);
  const width = () => Math.max(track.current?.clientWidth ?? 1, 1);
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -0.1, ArrowRight: 0.1, PageUp: -0.9, PageDown: 0.9, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const far = (extent.to - extent.from) / (view.to - view.from);
    onChange(pan(view, extent, Math.min(Math.max(by, -far), far)));
  };
  return (
    <div
      class="tl-bar"
      ref={track}
      role="scrollbar"
      tabIndex={0}
      aria-label="Part of the time that is shown"
      aria-controls={controls}
      aria-orientation="horizontal"
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={size >= 1 ? 0 : Math.round((start / (1 - size)) * 100)}
      onKeyDown={onKeyDown}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        const box = event.currentTarget.getBoundingClientRect();
        const at = (event.clientX - box.left) / box.width;
        // A press beside the thumb brings its middle there.
        const next = at >= start && at <= start + size ? view : dragThumb(view, extent, least, at - (start + size / 2));
        drag.current = { x: event.clientX, view: next };
        onChange(next);
      }}
      onPointerMove={(event) => {
        if (drag.current) onChange(dragThumb(drag.current.view, extent, least, (event.clientX - drag.current.x) / width()));
      }}
      onPointerUp={() => (drag.current = null)}
      onPointerCancel={() => (drag.current = null)}
    >
      <div class="tl-thumb" style={{ left: `${start * 100}%`, width: `${size * 100}%` }} />
    </div>
  );
}
