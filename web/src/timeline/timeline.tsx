import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Agent } from "../api/schema";
import { duration, plural } from "../model/format";
import { agentLabel, place, spanOf, type Loaded } from "../model/trajectory";
import { labelWidth } from "../ui/preferences";
import { Splitter } from "../ui/splitter";
import { Axis } from "./axis";
import { Canvas } from "./canvas";
import { lanes } from "./lanes";
import { agentHeight, rowHeight } from "./paint";
import { unmeasured } from "./redraw";
import { clamp, extentOf, pan, position, reveal, wheelFactor, zoom, type View } from "./scale";
import { ScrollBar } from "./scroll-bar";
import { Tips, type TipAt } from "./tip";
import { Toolbar } from "./toolbar";

interface Props {
  loaded: Loaded;
  /** The agent whose events are listed below, and the selected event's index or -1. */
  agent: string;
  selected: number;
  onSelect: (index: number) => void;
  onAgent: (agent: string) => void;
  onUntimed: () => void;
}

/** For how long after scrolling a wheel with Ctrl is taken for the rest of it, in milliseconds. */
const inertia = 150;

/** Timeline places all agents' work on one axis. It always shows everything: the filters of the list do not reach it. */
export function Timeline({ loaded, agent, selected, onSelect, onAgent, onUntimed }: Props) {
  const placed = useMemo(() => place(loaded.entries), [loaded.entries]);
  const all = useMemo(() => lanes(loaded.agents.map((a) => a.id), placed), [loaded.agents, placed]);
  const extent = useMemo(() => wholeExtent(placed), [placed]);
  const view = useView(extent);
  const tip = useSignal<TipAt | null>(null);
  const root = useRef<HTMLElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const tracks = useRef<HTMLDivElement>(null);
  const part = useSignal(unmeasured);
  const entryAt = (index: number) => loaded.entries[index];

  const chosen = entryAt(selected);
  const span = chosen === undefined ? null : spanOf(chosen);
  // A selection that came from elsewhere is brought into view, in time and among the agents.
  useEffect(() => {
    if (span !== null) view.value = reveal(view.value, extent, clamp(view.value.from, span.start, span.end));
    const at = all.findIndex((lane) => lane.agent === chosen?.agent);
    if (at >= 0 && body.current) keepVisible(body.current, Math.floor(at / 2) * agentHeight);
  }, [selected, extent]);

  const fit = () => (view.value = extent);
  const zoomBy = (factor: number) => {
    const at = span === null ? 0.5 : position(view.value, (span.start + span.end) / 2);
    view.value = zoom(view.value, extent, at >= 0 && at <= 1 ? at : 0.5, factor);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const far = event.shiftKey ? 0.5 : 0.1;
    if (event.key === "ArrowLeft") view.value = pan(view.value, extent, -far);
    else if (event.key === "ArrowRight") view.value = pan(view.value, extent, far);
    else if (event.key === "+" || event.key === "=") zoomBy(0.7);
    else if (event.key === "-" || event.key === "_") zoomBy(1 / 0.7);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  };
  useWheel(root, tracks, (next) => (view.value = next(view.value, extent)));

  const label = `Timeline of ${plural(loaded.agents.length, "agent")} over ${duration(extent.to - extent.from)}`;
  return (
    <section class="timeline" id="timeline" ref={root} aria-label="Timeline">
      <Toolbar
        view={view}
        extent={extent}
        untimed={loaded.counts.untimed}
        onZoom={zoomBy}
        onFit={fit}
        onUntimed={onUntimed}
      />
      <div class="tl-grid" style={{ "--wanted": `${labelWidth.value}px` }}>
        <div class="tl-corner">
          <span>Agents</span>
        </div>
        <div class="tl-top">
          <Axis view={view} extent={extent} part={part} />
          <ScrollBar view={view} extent={extent} controls="tracks" onChange={(next) => (view.value = next)} />
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
            aria-label={`${label}. Arrow keys move, plus and minus zoom, 0 shows all. Every mark is an event of the list below.`}
            style={{ height: `${loaded.agents.length * agentHeight}px` }}
          >
            <Canvas
              all={all}
              view={view}
              extent={extent}
              body={body}
              agent={agent}
              selected={selected}
              part={part}
              entryAt={entryAt}
              onView={(next) => (view.value = next)}
              onSelect={onSelect}
              onTip={(next) => (tip.value = next)}
            />
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

function wholeExtent(placed: readonly { start: number; end: number }[]): View {
  let first = Infinity;
  let last = -Infinity;
  for (const mark of placed) {
    first = Math.min(first, mark.start);
    last = Math.max(last, mark.end);
  }
  return first > last ? extentOf(0, 0) : extentOf(first, last);
}

/** useView begins with everything and goes on showing everything while more is read, until the view was changed. */
function useView(extent: View) {
  const view = useSignal(extent);
  const last = useRef(extent);
  if (last.current !== extent) {
    const wasWhole = view.peek() === last.current;
    last.current = extent;
    if (wasWhole) view.value = extent;
  }
  return view;
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

type Change = (view: View, extent: View) => View;

/** useWheel zooms with Ctrl (or a pinch) anywhere in the pane and pans sideways; a plain wheel scrolls as it does everywhere. */
function useWheel(root: { current: HTMLElement | null }, tracks: { current: HTMLElement | null }, change: (by: Change) => void): void {
  const latest = useRef(change);
  latest.current = change;
  useEffect(() => {
    let scrolled = -Infinity;
    const onWheel = (event: WheelEvent) => {
      const box = tracks.current?.getBoundingClientRect();
      if (!box || box.width === 0) return;
      if (event.ctrlKey || event.metaKey) {
        // The browser would zoom the whole page.
        event.preventDefault();
        if (event.timeStamp - scrolled < inertia) return;
        const at = clamp((event.clientX - box.left) / box.width, 0, 1);
        latest.current((view, extent) => zoom(view, extent, at, wheelFactor(event.deltaY, event.deltaMode)));
        return;
      }
      scrolled = event.timeStamp;
      const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
      if (sideways === 0 || Math.abs(sideways) < Math.abs(event.deltaY) * (event.shiftKey ? 0 : 1)) return;
      event.preventDefault();
      latest.current((view, extent) => pan(view, extent, sideways / box.width));
    };
    const element = root.current;
    element?.addEventListener("wheel", onWheel, { passive: false });
    return () => element?.removeEventListener("wheel", onWheel);
  }, []);
}
