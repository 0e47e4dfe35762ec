import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Entry, Run } from "../api/schema";
import { duration, noTime, plural, time, tokens } from "../model/format";
import { kindLabels, kindOf, purposeLabel } from "../model/kind";
import type { Head as HeadRow, Row, Rows } from "../model/rows";
import { durationOf, severityOf } from "../model/trajectory";
import { scrollFor, windowOf } from "../model/window";
import { Glyph } from "../ui/icons";
import { dayClock } from "../ui/preferences";
import { runStatus, runSummary } from "./run-summary";

interface Props {
  entries: readonly Entry[];
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

/** EventList shows one agent's events as rows of one height, of which only those in view exist. */
export function EventList({ entries, runs, rows, selected, onSelect, onOpen }: Props) {
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
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
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

  const shown = windowOf(scroll.top, scroll.height, rowHeight, rows.count, spare);
  // Rows that go out of view are used again for those that come into it.
  const slots = Math.ceil(scroll.height / rowHeight) + 2 * spare + 8;
  // What an outcome takes further than its first row is drawn from there.
  let first = shown.first;
  while (first > 0 && rows.at(first)?.type === "filler") first--;
  const active = selectedRow !== undefined && selectedRow >= shown.first && selectedRow < shown.last;
  const sticky = rows.headOf(Math.floor(scroll.top / rowHeight));
  return (
    <div class="list-box">
      {sticky && (
        <div class="list-sticky" aria-hidden="true">
          <Head row={sticky} runs={runs} />
        </div>
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
      >
        <div class="list-space" role="presentation" style={{ height: `${rows.count * rowHeight}px` }}>
          {groups(rows, first, shown.last).map((group) => (
            <div key={group.key} role="group" aria-label={group.label}>
              {group.rows.map(({ row, at }) => (
                <div key={at % slots} class="list-slot" role="presentation" style={{ height: `${rowHeight * (row.type === "outcome" ? row.lines : 1)}px`, transform: `translateY(${at * rowHeight}px)` }}>
                  {row.type === "event" ? (
                    <Event
                      entry={entries[row.index]}
                      index={row.index}
                      selected={row.index === selected}
                      position={(rows.placeOf(row.index) ?? 0) + 1}
                      total={rows.events.length}
                      onSelect={onSelect}
                    />
                  ) : (
                    <div aria-hidden="true">{row.type === "outcome" ? <Outcome run={runs.get(row.uid)} /> : <Head row={row} runs={runs} />}</div>
                  )}
                </div>
              ))}
            </div>
          ))}
        </div>
      </div>
      <p class="visually-hidden" id="list-outcomes">
        {outcomes(rows, runs)}
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

interface Group {
  key: string;
  label: string;
  rows: { row: Exclude<Row, { type: "filler" }>; at: number }[];
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

type Titled = Exclude<HeadRow, { type: "outcome" }>;

function headLabel(row: Titled): string {
  if (row.type === "untimed") return noTime;
  return row.uid === "" ? "Events without a run" : `Run ${row.name || row.uid}`;
}

function Head({ row, runs }: { row: Titled; runs: ReadonlyMap<string, Run> }) {
  const run = row.type === "run" ? runs.get(row.uid) : undefined;
  return (
    <div class={`list-head${row.type === "untimed" ? " untimed" : ""}`}>
      <b>{headLabel(row)}</b>
      {run && run.status !== "succeeded" && <span class={`chip ${chipOf(run)}`}>{runStatus(run)}</span>}
      <span class="muted">{run ? runSummary(run) : plural(row.events, "event")}</span>
    </div>
  );
}

function chipOf(run: Run): string {
  return run.status === "running" ? "live" : run.status === "failed" ? "bad" : "";
}

/** Outcome says in the run's own words why it did not succeed. */
function Outcome({ run }: { run: Run | undefined }) {
  return (
    <div class={`list-outcome ${run?.status ?? ""}`} title={run?.message}>
      {run?.message}
    </div>
  );
}

interface EventProps {
  entry: Entry | undefined;
  index: number;
  selected: boolean;
  position: number;
  total: number;
  onSelect: (index: number) => void;
}

function Event({ entry, index, selected, position, total, onSelect }: EventProps) {
  const kind = entry && kindOf(entry);
  if (!entry || !kind) return null;
  const took = durationOf(entry);
  const severity = severityOf(entry);
  const purpose = purposeLabel(entry);
  return (
    <div
      id={`event-${index}`}
      class={`event is-${severity}`}
      role="option"
      aria-selected={selected}
      aria-posinset={position}
      aria-setsize={total}
      onClick={() => onSelect(index)}
    >
      <span class="event-number">#{entry.sequence}</span>
      <span class="event-time">{entry.capturedAt === undefined ? noTime : time(entry.startedAt ?? entry.capturedAt, dayClock())}</span>
      <span class="event-kind">
        <Glyph kind={kind} />
        {kindLabels[kind]}
      </span>
      <span class="event-title" title={entry.title}>
        {entry.title}
        {entry.server && <span class="muted"> · {entry.server}</span>}
      </span>
      {purpose !== "" && <span class="chip purpose">{purpose}</span>}
      {severity !== "normal" && <span class="event-status">{entry.status}</span>}
      <span class="event-tokens">{tokens(entry.usage)}</span>
      <span class="event-duration">{took === null ? "" : duration(took)}</span>
    </div>
  );
}
