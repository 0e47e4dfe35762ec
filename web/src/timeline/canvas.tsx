import type { ReadonlySignal, Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Entry } from "../api/schema";
import { clock } from "../ui/preferences";
import { axisTicks } from "./axis";
import { visibleBreaks, type Warp } from "./idle";
import { hit, isVisible, type Lane } from "./lanes";
import { agentHeight, laneAt, Painter } from "./paint";
import type { Part } from "./redraw";
import { pan, zoom, type View } from "./scale";
import type { Span } from "../model/trajectory";
import type { TipAt } from "./tip";
import { useCanvas } from "./use-canvas";

/** How far beside a mark a click still means it, in CSS pixels. */
const slop = 4;
/** How far a pointer moves before a press is a drag, in CSS pixels. */
const dragStart = 4;

interface Props {
  all: readonly Lane[];
  view: ReadonlySignal<View>;
  /** The view when it has come to rest. */
  settled: ReadonlySignal<View>;
  extent: View;
  warp: Warp;
  /** Whether there is anything on the axis. */
  empty: boolean;
  body: { current: HTMLDivElement | null };
  agent: string;
  selected: number;
  part: Signal<Part>;
  entryAt: (index: number) => Entry | undefined;
  /** Where a mark stands on the axis; null without a time. */
  spanAt: (index: number) => Span | null;
  /** Where the pointer is, as a part of the width; null when it is elsewhere. */
  pointer: { current: number | null };
  onView: (view: View) => void;
  onSelect: (index: number) => void;
  onTip: (tip: TipAt | null) => void;
}

/** Canvas draws what of the lanes is in view and turns pointers into selections and movement. */
export function Canvas(props: Props) {
  const painter = useRef(new Painter());
  const drag = useRef<{ x: number; view: View; moved: boolean } | null>(null);
  const { all, extent, warp, agent, selected, entryAt } = props;
  const canvas = useCanvas({
    view: props.view,
    settled: props.settled,
    part: props.part,
    height: (part) => Math.min(part.height, (all.length / 2) * agentHeight),
    paint: (ctx, { view, part: { width, scrollTop }, height, ratio, palette }) => {
      const ticks = props.empty ? [] : axisTicks(view, extent, width, clock.value, warp);
      const breaks = visibleBreaks(warp, view);
      const label = (index: number) => entryAt(index)?.title ?? "";
      painter.current.paint(ctx, { lanes: all, view, width, height, scrollTop, ratio, palette, selected, agent, ticks, breaks, label });
    },
    of: [all, extent, warp, agent, selected],
  });
  useEffect(() => {
    const element = canvas.current;
    const scroller = props.body.current;
    if (!element || !scroller) return;
    // Sizes are kept: to ask for them while the page changes would make the browser lay it out at once.
    const measure = () => {
      const { width, height, scrollTop } = props.part.peek();
      const now = { width: element.clientWidth, height: scroller.clientHeight, scrollTop: scroller.scrollTop };
      if (now.width !== width || now.height !== height || now.scrollTop !== scrollTop) props.part.value = now;
    };
    const resized = new ResizeObserver(measure);
    resized.observe(element);
    resized.observe(scroller);
    scroller.addEventListener("scroll", measure, { passive: true });
    return () => {
      resized.disconnect();
      scroller.removeEventListener("scroll", measure);
    };
  }, []);

  const find = (event: MouseEvent): number | null => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box || !props.body.current) return null;
    const at = laneAt(props.all, event.clientY - box.top + props.body.current.scrollTop);
    if (!at) return null;
    const raster = { view: props.view.value, width: box.width, least: 2, selected: props.selected };
    return hit(at.lane, raster, event.clientX - box.left, at.sub, slop);
  };
  const onPointerMove = (event: PointerEvent) => {
    props.pointer.current = event.offsetX / Math.max(props.part.peek().width, 1);
    const from = drag.current;
    if (!from) {
      const index = find(event);
      props.onTip(index === null ? null : { index, x: event.clientX, y: event.clientY });
      return;
    }
    const by = event.clientX - from.x;
    if (!from.moved && Math.abs(by) < dragStart) return;
    from.moved = true;
    props.onTip(null);
    props.onView(pan(from.view, props.extent, -by / Math.max(props.part.peek().width, 1)));
  };
  const onPointerUp = (event: PointerEvent) => {
    const from = drag.current;
    drag.current = null;
    if (!from || from.moved) return;
    const index = find(event);
    if (index !== null) props.onSelect(index);
  };
  const onDblClick = (event: MouseEvent) => {
    const index = find(event);
    const span = index === null ? null : props.spanAt(index);
    props.onView(span === null || span.start === span.end ? props.extent : around(span.start, span.end, props.extent));
  };
  return (
    <canvas
      ref={canvas}
      aria-hidden="true"
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        drag.current = { x: event.clientX, view: props.view.value, moved: false };
      }}
      onPointerMove={onPointerMove}
      onPointerUp={onPointerUp}
      onPointerCancel={() => (drag.current = null)}
      onPointerLeave={() => {
        props.pointer.current = null;
        props.onTip(null);
      }}
      onDblClick={onDblClick}
    />
  );
}

/** around is a view in which a mark takes most of the width. */
export function around(start: number, end: number, extent: View): View {
  const room = (end - start) * 0.15;
  const narrow = { from: start - room, to: end + room };
  return isVisible(extent, start, end) ? zoom(narrow, extent, 0.5, 1) : extent;
}
