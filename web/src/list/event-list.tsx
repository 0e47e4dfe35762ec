import type { ComponentChild, TargetedMouseEvent } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Entry, Run } from "../api/schema";
import { approvalsOf } from "../model/approvals";
import type { Row, Rows } from "../model/rows";
import { scrollFor, windowOf } from "../model/window";
import { dayClock } from "../ui/preferences";
import { type Around, Head, headLabel, rowNode } from "./event-row";
import { runStatus } from "./run-summary";

interface Props {
  entries: readonly Entry[];
  /** The indexes of the agent's entries, whether or not they are listed. */
  own: readonly number[];
  runs: ReadonlyMap<string, Run>;
  rows: Rows;
  /** The selected event's index, or -1. */
  selected: number;
  onSelect: (index: number) => void;
  /** Move to the details of the selected event. */
  onOpen: () => void;
}

/** Rows are taller where a finger must hit them. */
const rowHeight = matchMedia("(pointer: coarse)").matches ? 44 : 28;
const spare = 4;
/** For how many milliseconds after a step the list counts as moving. */
const rest = 600;

/** EventList shows one agent's events as rows of one height, of which only those in view exist. */
export function EventList({ entries, own, runs, rows, selected, onSelect, onOpen }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 600 });
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    // A part of a row changes nothing.
    const measure = () => {
      const now = { top: Math.floor(element.scrollTop / rowHeight) * rowHeight, height: element.clientHeight };
      setScroll((before) => (before.top === now.top && before.height === now.height ? before : now));
    };
    // Rows that move below a pointer which rests would be looked for and drawn as under it, one after the other.
    let resting = 0;
    const onScroll = () => {
      clearTimeout(resting);
      element.classList.add("moving");
      resting = setTimeout(() => element.classList.remove("moving"), rest);
      measure();
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      clearTimeout(resting);
      observer.disconnect();
      element.removeEventListener("scroll", onScroll);
    };
  }, []);
  const selectedRow = rows.rowOf(selected);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || selectedRow === undefined) return;
    element.scrollTop = scrollFor(element.scrollTop, element.clientHeight, rowHeight, selectedRow, rowHeight);
  }, [selected, selectedRow]);

  const move = (to: number | undefined) => {
    if (to !== undefined) onSelect(to);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = rows.placeOf(selected) ?? -1;
    const page = Math.max(Math.floor(scroll.height / rowHeight) - 2, 1);
    const last = rows.events.length - 1;
    if (event.key === "ArrowDown") move(rows.events[at + 1]);
    else if (event.key === "ArrowUp") move(at < 0 ? rows.events[last] : rows.events[Math.max(at - 1, 0)]);
    else if (event.key === "PageDown") move(rows.events[Math.min(Math.max(at, 0) + page, last)]);
    else if (event.key === "PageUp") move(rows.events[Math.max(at - page, 0)]);
    else if (event.key === "Home") move(rows.events[0]);
    else if (event.key === "End") move(rows.events[last]);
    else if (event.key === "Enter" && at >= 0) onOpen();
    else return;
    event.preventDefault();
  };

  // A row in view is an element under the pointer, but for one that moves.
  const onClick = (event: TargetedMouseEvent<HTMLElement>) => {
    const option = (event.target as Element).closest("[role=option]");
    if (option !== null) {
      onSelect(Number(option.id.slice("event-".length)));
      return;
    }
    const { top } = event.currentTarget.getBoundingClientRect();
    const row = rows.at(Math.floor((event.clientY - top + event.currentTarget.scrollTop) / rowHeight));
    if (row?.type === "event") onSelect(row.index);
  };

  const shown = windowOf(scroll.top, scroll.height, rowHeight, rows.count, spare);
  // Rows that go out of view are used again for those that come into it.
  const slots = Math.ceil(scroll.height / rowHeight) + 2 * spare + 8;
  // What an outcome takes further than its first row is drawn from there.
  let first = shown.first;
  while (first > 0 && rows.at(first)?.type === "filler") first--;
  const active = selectedRow !== undefined && selectedRow >= shown.first && selectedRow < shown.last;
  const sticky = rows.headOf(Math.floor(scroll.top / rowHeight));
  const day = dayClock();
  const around = useMemo<Around>(
    () => ({
      entries,
      runs,
      selected,
      day,
      total: rows.events.length,
      approvalOf: (callId) => approvalsOf(own).of(entries, own, callId),
      placeOf: (index) => rows.placeOf(index),
    }),
    [entries, own, runs, rows, selected, day],
  );
  // A row that was there and is the same is not made again.
  const made = useRef<{ around: Around; slots: number; nodes: Map<number, ComponentChild> } | null>(null);
  const before = made.current?.around === around && made.current.slots === slots ? made.current.nodes : undefined;
  const nodes = new Map<number, ComponentChild>();
  made.current = { around, slots, nodes };
  const node = ({ row, at }: Placed) => {
    const style = { height: `${rowHeight * (row.type === "outcome" ? row.lines : 1)}px`, transform: `translateY(${at * rowHeight}px)` };
    const same = before?.get(at) ?? rowNode(row, at % slots, style, around);
    nodes.set(at, same);
    return same;
  };
  return (
    <div class="list-box">
      {useMemo(
        () =>
          sticky && (
            <div class="list-sticky" aria-hidden="true">
              <Head row={sticky} runs={runs} />
            </div>
          ),
        [sticky, runs],
      )}
      <div
        class="list"
        id="event-list"
        ref={box}
        role="listbox"
        tabIndex={0}
        aria-label="Events"
        aria-describedby="list-outcomes"
        aria-activedescendant={active ? `event-${selected}` : undefined}
        onKeyDown={onKeyDown}
        onClick={onClick}
      >
        <div class="list-space" role="presentation" style={{ height: `${rows.count * rowHeight}px` }}>
          {groups(rows, first, shown.last).map((group) => (
            <div key={group.key} role="group" aria-label={group.label}>
              {group.rows.map(node)}
            </div>
          ))}
        </div>
      </div>
      <p class="visually-hidden" id="list-outcomes">
        {useMemo(() => outcomes(rows, runs), [rows, runs])}
      </p>
    </div>
  );
}

/** outcomes are the runs that did not succeed, for those who do not see their heads. */
function outcomes(rows: Rows, runs: ReadonlyMap<string, Run>): string {
  return rows
    .sections()
    .flatMap((section) => {
      const head = rows.at(section);
      const run = head?.type === "run" ? runs.get(head.uid) : undefined;
      return run === undefined || run.status === "succeeded" ? [] : [`Run ${run.name ?? run.uid}: ${runStatus(run)}. ${run.message ?? ""}`];
    })
    .slice(0, 20)
    .join(" ");
}

interface Placed {
  row: Exclude<Row, { type: "filler" }>;
  at: number;
}

interface Group {
  key: string;
  label: string;
  rows: Placed[];
}

/** groups puts the rows in view into those of one run each, so that a screen reader hears the run's name. */
function groups(rows: Rows, first: number, last: number): Group[] {
  const out: Group[] = [];
  for (let at = first; at < last; at++) {
    const row = rows.at(at);
    if (!row || row.type === "filler") continue;
    if (row.type === "run" || row.type === "untimed" || out.length === 0) {
      const head = rows.headOf(at);
      out.push({ key: head?.type === "run" ? head.uid : "untimed", label: head === null ? "Events" : headLabel(head), rows: [] });
    }
    out.at(-1)?.rows.push({ row, at });
  }
  return out;
}
