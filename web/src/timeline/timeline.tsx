import { useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Agent } from "../api/schema";
import { duration, plural } from "../model/format";
import { agentLabel, place, spanOf, type Loaded, type Span } from "../model/trajectory";
import { labelWidth } from "../ui/preferences";
import { Splitter } from "../ui/splitter";
import { Axis } from "./axis";
import { around, Canvas } from "./canvas";
import { straight, toAxis, toTime, warpOf, type Warp } from "./idle";
import { gapBefore, isVisible, lanes, type Placed } from "./lanes";
import { agentHeight, rowHeight, topOf } from "./paint";
import { unmeasured } from "./redraw";
import { clamp, extentOf, pan, position, reveal, zoom, type View } from "./scale";
import { ScrollBar } from "./scroll-bar";
import { Tips, type TipAt } from "./tip";
import { Toolbar } from "./toolbar";
import { useView } from "./use-view";
import { useWheel } from "./use-wheel";

interface Props {
  loaded: Loaded;
  /** The agent whose events are listed below, and the selected event's index or -1. */
  agent: string;
  selected: number;
  /** The part of the time that the address names; null for all of it. */
  time: View | null;
  /** Is given what brings the selected mark to the middle. */
  centre: { current: (() => void) | null };
  /** What part of the time is shown, when that has come to rest. */
  onTime: (time: View | null) => void;
  onSelect: (index: number) => void;
  onAgent: (agent: string) => void;
  onUntimed: () => void;
}

/** Timeline places all agents' work on one axis. It always shows everything: the filters of the list do not reach it. */
export function Timeline({ loaded, agent, selected, time, centre, onTime, onSelect, onAgent, onUntimed }: Props) {
  const skip = useSignal(false);
  const { all, extent, warp, offers, empty } = useLanes(loaded, skip.value);
  const { view, settled } = useView(
    extent,
    time && { from: toAxis(warp, time.from), to: toAxis(warp, time.to) },
    (rested) => onTime(rested && { from: toTime(warp, rested.from), to: toTime(warp, rested.to) }),
  );
  const hovered = useSignal<TipAt | null>(null);
  const focused = useSignal(false);
  const root = useRef<HTMLElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const tracks = useRef<HTMLDivElement>(null);
  const pointer = useRef<number | null>(null);
  const part = useSignal(unmeasured);
  const entryAt = (index: number) => loaded.entries[index];
  const spanAt = (index: number): Span | null => {
    const entry = entryAt(index);
    const span = entry === undefined ? null : spanOf(entry);
    return span && { start: toAxis(warp, span.start), end: toAxis(warp, span.end) };
  };
  const laneOf = (index: number) => all.findIndex((lane) => lane.agent === entryAt(index)?.agent && lane.events.includes(index));
  const span = spanAt(selected);
  // A selection that came from elsewhere is brought into view, in time and among the agents.
  const revealed = useRef(time === null ? -1 : selected);
  useEffect(() => {
    if (span !== null && revealed.current !== selected) view.value = reveal(view.value, extent, clamp(view.value.from, span.start, span.end));
    revealed.current = selected;
    const at = all.findIndex((lane) => lane.agent === entryAt(selected)?.agent);
    if (at >= 0 && body.current) keepVisible(body.current, Math.floor(at / 2) * agentHeight);
  }, [selected, all]);

  const fit = () => (view.value = extent);
  const zoomBy = (factor: number) => {
    const mark = span === null ? -1 : position(view.value, (span.start + span.end) / 2);
    view.value = zoom(view.value, extent, mark >= 0 && mark <= 1 ? mark : (pointer.current ?? 0.5), factor);
  };
  centre.current = () => {
    if (span === null) return;
    const middle = (span.start + span.end) / 2;
    const centred = Math.abs(position(view.value, middle) - 0.5) < 0.02;
    view.value = centred && span.end > span.start ? around(span.start, span.end, extent) : pan(view.value, extent, position(view.value, middle) - 0.5);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const far = event.shiftKey ? 0.5 : 0.1;
    if (event.key === "ArrowLeft") view.value = pan(view.value, extent, -far);
    else if (event.key === "ArrowRight") view.value = pan(view.value, extent, far);
    else if (event.key === "+" || event.key === "=" || event.code === "KeyW") zoomBy(0.7);
    else if (event.key === "-" || event.key === "_" || event.code === "KeyS") zoomBy(1 / 0.7);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  useWheel(root, tracks, (next) => (view.value = next(view.value, extent)));

  // With the focus, the selected mark says what it is as one under the pointer does.
  const at = useSignal(selected);
  at.value = selected;
  const tip = useComputed<TipAt | null>(() => {
    if (hovered.value !== null || !focused.value) return hovered.value;
    const mark = spanAt(at.value);
    const box = tracks.current?.getBoundingClientRect();
    if (mark === null || !box || !isVisible(settled.value, mark.start, mark.end)) return null;
    const x = clamp(position(settled.value, mark.start), 0, 1) * box.width;
    return { index: at.value, x: box.left + x, y: box.top + topOf(laneOf(at.value)) + rowHeight / 2, gap: gapOf(at.value) };
  });
  const gapOf = (index: number) => {
    const lane = all[laneOf(index)];
    return lane === undefined ? null : gapBefore(lane, index);
  };
  useSignalEffect(() => {
    if (view.value !== settled.value) hovered.value = null;
  });

  const lengthOf = (shown: View) => toTime(warp, shown.to) - toTime(warp, shown.from);
  const over = empty ? "without a mark" : `over ${duration(lengthOf(extent))}`;
  const label = `Timeline of ${plural(loaded.agents.length, "agent")} ${over}`;
  return (
    <section class="timeline" id="timeline" ref={root} aria-label="Timeline">
      <Toolbar
        view={settled}
        extent={extent}
        lengthOf={lengthOf}
        untimed={loaded.counts.untimed}
        empty={empty}
        skips={skip.value || offers ? skip.value : null}
        onSkip={(next) => (skip.value = next)}
        onZoom={zoomBy}
        onFit={fit}
        onUntimed={onUntimed}
      />
      <div class="tl-grid" style={{ "--wanted": `${labelWidth.value}px` }}>
        <div class="tl-corner">
          <span>Agents</span>
        </div>
        <div class="tl-top">
          <Axis view={view} extent={extent} warp={warp} part={part} empty={empty} />
          <ScrollBar view={view} settled={settled} part={part} extent={extent} controls="tracks" onChange={(next) => (view.value = next)} />
        </div>
        <div class="tl-body" ref={body}>
          <ol class="tl-labels" id="timeline-labels" style={{ height: `${loaded.agents.length * agentHeight}px` }}>
            {loaded.agents.map((item) => (
              <Label key={item.id} agent={item} listed={item.id === agent} onAgent={onAgent} />
            ))}
          </ol>
          <div
            class="tl-tracks"
            id="tracks"
            ref={tracks}
            role="group"
            tabIndex={0}
            onKeyDown={onKeyDown}
            onFocus={() => (focused.value = true)}
            onBlur={() => (focused.value = false)}
            aria-label={`${label}. Arrow keys move, plus and minus zoom, 0 shows all. Every mark is an event of the list below.`}
            style={{ height: `${loaded.agents.length * agentHeight}px` }}
          >
            <Canvas
              all={all}
              view={view}
              settled={settled}
              extent={extent}
              warp={warp}
              empty={empty}
              body={body}
              agent={agent}
              selected={selected}
              part={part}
              entryAt={entryAt}
              spanAt={spanAt}
              pointer={pointer}
              onView={(next) => (view.value = next)}
              onSelect={onSelect}
              onTip={(next) => (hovered.value = next && { ...next, gap: gapOf(next.index) })}
            />
            {empty && <Nothing loaded={loaded} />}
          </div>
        </div>
        <Splitter
          orientation="vertical"
          label="Width of the agents' column"
          controls="timeline-labels"
          value={labelWidth.value}
          min={96}
          max={360}
          onChange={(value) => (labelWidth.value = value)}
        />
      </div>
      <Tips at={tip} entryAt={entryAt} />
    </section>
  );
}

/** useLanes makes lanes of what was read, on an axis with or without idle time. */
function useLanes(loaded: Loaded, skip: boolean) {
  const placed = useMemo(() => place(loaded.entries), [loaded]);
  const found = useMemo(() => warpOf(placed), [placed]);
  const warp: Warp = (skip ? found : null) ?? straight;
  const marks = useMemo(() => (warp === straight ? placed : placed.map((mark) => onAxis(mark, warp))), [placed, warp]);
  const all = useMemo(() => lanes(loaded.agents.map((agent) => agent.id), marks), [loaded, marks]);
  const extent = useMemo(() => wholeExtent(marks), [marks]);
  return { all, extent, warp, offers: found !== null, empty: placed.length === 0 };
}

function onAxis(mark: Placed, warp: Warp): Placed {
  return { ...mark, start: toAxis(warp, mark.start), end: toAxis(warp, mark.end) };
}

function wholeExtent(placed: readonly Span[]): View {
  let first = Infinity;
  let last = -Infinity;
  for (const mark of placed) {
    first = Math.min(first, mark.start);
    last = Math.max(last, mark.end);
  }
  return first > last ? extentOf(0, 0) : extentOf(first, last);
}

/** Nothing stands in the tracks where no record has a place on the axis. */
function Nothing({ loaded }: { loaded: Loaded }) {
  return (
    <p class="tl-empty muted">
      {loaded.counts.untimed > 0
        ? "No time was recorded for any of these events. The list has them."
        : "No model request and no tool call was recorded. The list says how each run ended."}
    </p>
  );
}

function keepVisible(body: HTMLElement, top: number): void {
  if (top < body.scrollTop) body.scrollTop = top;
  else if (top + agentHeight > body.scrollTop + body.clientHeight) body.scrollTop = top + agentHeight - body.clientHeight;
}

function Label({ agent, listed, onAgent }: { agent: Agent; listed: boolean; onAgent: (agent: string) => void }) {
  return (
    <li style={{ height: `${agentHeight}px` }}>
      <button type="button" aria-pressed={listed} onClick={() => onAgent(agent.id)} title={agent.id}>
        <span class="tl-name">
          {agentLabel(agent)}
          {agent.live && <span class="dot" role="img" aria-label="running" />}
        </span>
        <small>{plural(agent.entries, "record")}</small>
      </button>
      <span class="tl-rows" aria-hidden="true">
        <small style={{ lineHeight: `${rowHeight}px` }}>model</small>
        <small style={{ lineHeight: `${rowHeight}px` }}>tools</small>
      </span>
    </li>
  );
}
