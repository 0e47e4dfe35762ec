import type { ComponentChild } from "preact";
import type { Entry, Run } from "../api/schema";
import { type Clock, duration, noTime, plural, time, tokens } from "../model/format";
import { kindLabels, kindOf, purposeLabel } from "../model/kind";
import { approvalLabel } from "../model/approvals";
import type { Head as HeadRow, Row } from "../model/rows";
import { durationOf, severityOf } from "../model/trajectory";
import { Glyph } from "../ui/icons";
import { runStatus, runSummary } from "./run-summary";

type Titled = Exclude<HeadRow, { type: "outcome" }>;

/** What a row is made of beside itself. */
export interface Around {
  readonly entries: readonly Entry[];
  readonly runs: ReadonlyMap<string, Run>;
  /** The selected event's index, or -1. */
  readonly selected: number;
  readonly day: Clock;
  /** How many events are listed, and the place of one among them, from 0. */
  readonly total: number;
  /** What people were last asked about a call or decided; empty when nobody was asked. */
  readonly approvalOf: (callId: string | undefined) => string;
  readonly placeOf: (index: number) => number | undefined;
}

/**
 * rowNode is a row of the list in a place of its own. Rows of events all have the same parts, so that one which goes out of view can
 * be used again with other words: what a step of scrolling costs is what it makes and takes away.
 */
export function rowNode(row: Exclude<Row, { type: "filler" }>, key: number, style: { height: string; transform: string }, around: Around): ComponentChild {
  if (row.type === "event") return eventNode(row.index, key, style, around);
  return (
    <div key={key} class="list-slot" aria-hidden="true" style={style}>
      {row.type === "outcome" ? <Outcome run={around.runs.get(row.uid)} /> : <Head row={row} runs={around.runs} />}
    </div>
  );
}

export function headLabel(row: Titled): string {
  if (row.type === "untimed") return noTime;
  return row.uid === "" ? "Events without a run" : `Run ${row.name || row.uid}`;
}

export function Head({ row, runs }: { row: Titled; runs: ReadonlyMap<string, Run> }) {
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

function eventNode(index: number, key: number, style: { height: string; transform: string }, { entries, selected, day, total, placeOf, approvalOf }: Around): ComponentChild {
  const entry = entries[index];
  const kind = entry && kindOf(entry);
  if (!entry || !kind) return null;
  const took = durationOf(entry);
  const severity = severityOf(entry);
  const approval = approvalOf(entry.toolCallId);
  const purpose = purposeLabel(entry) || approvalLabel(approval);
  return (
    <div
      key={key}
      id={`event-${index}`}
      class={`list-slot event is-${severity}`}
      role="option"
      aria-selected={index === selected}
      aria-posinset={(placeOf(index) ?? 0) + 1}
      aria-setsize={total}
      style={style}
    >
      <span class="event-number">{`#${entry.sequence}`}</span>
      <span class="event-time">{entry.capturedAt === undefined ? noTime : time(entry.startedAt ?? entry.capturedAt, day)}</span>
      <span class="event-kind">
        <Glyph kind={kind} />
        {kindLabels[kind]}
      </span>
      <span class="event-title" title={entry.title}>
        {entry.title}
        <span class="muted">{entry.server ? ` · ${entry.server}` : ""}</span>
      </span>
      <span class="chip purpose" title={approval} hidden={purpose === ""}>
        {purpose}
      </span>
      <span class="event-status">{severity === "normal" ? "" : entry.status}</span>
      <span class="event-tokens">{tokens(entry.usage)}</span>
      <span class="event-duration">{took === null ? "" : duration(took)}</span>
    </div>
  );
}
