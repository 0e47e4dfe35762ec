import { describe, expect, it } from "vitest";
import type { Entry, Run } from "../src/api/schema";
import { hit, rowsOf as rowsOfSource, step, stepRun, stepTo, type Filter, type Row, type Rows } from "../src/model/rows";
import { entry } from "./entries";

const all: Filter = { agent: "main", types: null, run: null, search: "" };

function rowsOf(entries: readonly Entry[], filter: Filter, runs: readonly Run[] = []): Rows {
  const byAgent = new Map<string, number[]>();
  entries.forEach((one, index) => byAgent.set(one.agent, [...(byAgent.get(one.agent) ?? []), index]));
  return rowsOfSource({ entries, byAgent, runs: new Map(runs.map((run) => [run.uid, run])) }, filter);
}

const every = (rows: Rows) => Array.from({ length: rows.count }, (_, row) => rows.at(row) as Row);
const numbers = (rows: Rows, of: readonly Entry[] = entries) => [...rows.events].map((index) => of[index]?.sequence);
const ended = (part: Partial<Run>): Run => ({ uid: "x", agent: "main", status: "failed", attempts: 1, turns: 0, requests: 0, requestsWithoutUsage: 0, toolCalls: 0, ...part });

const entries = [
  entry({ sequence: 1, type: "lifecycle", event: "run.started", hidden: true, title: "run.started" }),
  entry({ sequence: 2, type: "modelInput", title: "claude" }),
  entry({ sequence: 3, type: "tool", title: "read_logs", status: "error" }),
  entry({ sequence: 4, agent: "helper", type: "tool", title: "count" }),
  entry({ sequence: 5, type: "modelOutput", title: "claude", run: { uid: "u2", name: "second" } }),
  entry({ sequence: 6, type: "mcp", title: "query", server: "metrics", run: { uid: "u2", name: "second" } }),
  { ...entry({ sequence: 7, type: "reasoning", title: "reasoning" }), capturedAt: undefined } as never,
];

const shape = (filter: Filter) =>
  every(rowsOf(entries, filter)).map((row) => (row.type === "event" ? entries[row.index]?.sequence : row.type === "run" ? row.name : row.type));

describe("rows", () => {
  it("are one agent's, grouped by run; without a time they stand last", () => {
    expect(shape(all)).toEqual(["first", 2, 3, "second", 5, 6, "untimed", 7]);
  });
  it("count what is hidden by filters and what the viewer never lists", () => {
    const rows = rowsOf(entries, { ...all, types: ["tool"] });
    expect(numbers(rows)).toEqual([3]);
    expect({ filtered: rows.filtered, lifecycle: rows.lifecycle }).toEqual({ filtered: 4, lifecycle: 1 });
  });
  it.each([
    ["a title", "QUERY", [6]],
    ["a server", "metrics", [6]],
    ["a status", "error", [3]],
    ["a number", "#5", [5]],
    ["a type", "model input", [2]],
    ["several words, all of which must be there", "claude output", [5]],
    ["a run", "second", [5, 6]],
    ["nothing that is there", "zebra", []],
  ])("are found by %s", (_name, search, want) => {
    const rows = rowsOf(entries, { ...all, search });
    expect(numbers(rows)).toEqual(want);
  });
  it("know the place of each event", () => {
    const rows = rowsOf(entries, all);
    expect(rows.rowOf(5)).toBe(5);
    expect(rows.placeOf(5)).toBe(3);
    expect(rows.rowOf(3)).toBeUndefined();
  });
  it("begin a run once, also where another run stands between its events", () => {
    const mixed = [entry({ sequence: 11 }), entry({ sequence: 12, run: { uid: "u2" } }), entry({ sequence: 13 })];
    const rows = every(rowsOf(mixed, all));
    expect(rows.map((row) => (row.type === "event" ? mixed[row.index]?.sequence : "run"))).toEqual(["run", 11, 13, "run", 12]);
  });
});

describe("runs without events", () => {
  const failed = ended({ uid: "u9", name: "compact", reason: "NothingToCompact", message: "There is nothing before the newest turn.", startedAt: 1_500_000 });
  const shapes = (rows: Rows) => every(rows).map((row) => (row.type === "event" ? row.index : row.type === "untimed" || row.type === "filler" ? row.type : `${row.type} ${row.name}`));
  it("have their head and why they ended, in the order in which runs began", () => {
    const later = [entry({ sequence: 1, run: { uid: "u1", name: "first" } }), entry({ sequence: 5, run: { uid: "u2", name: "second" } })];
    expect(shapes(rowsOf(later, all, [failed]))).toEqual(["run first", 0, "run compact", "outcome compact", "run second", 1]);
  });
  it("are all there is where a session has nothing else", () => {
    expect(shapes(rowsOf([], all, [failed, ended({ uid: "u10", name: "queued", status: "cancelled" })]))).toEqual(["run compact", "outcome compact", "run queued"]);
  });
  it("are found by their reason, and left out where types or another run are asked for", () => {
    expect(rowsOf([], { ...all, search: "nothingto" }, [failed]).count).toBe(2);
    expect(rowsOf([], { ...all, search: "zebra" }, [failed]).count).toBe(0);
    expect(rowsOf([], { ...all, types: ["tool"] }, [failed]).count).toBe(0);
    expect(rowsOf([], { ...all, run: "other" }, [failed]).count).toBe(0);
    expect(rowsOf([], { ...all, agent: "helper" }, [failed]).count).toBe(0);
  });
  it("take as many rows for a long message as it needs, and no more than four", () => {
    const rows = rowsOf([], all, [ended({ ...failed, message: "x".repeat(900) })]);
    expect(every(rows).map((row) => row.type)).toEqual(["run", "outcome", "filler", "filler", "filler"]);
    expect(rows.headOf(4)).toMatchObject({ type: "run", uid: "u9" });
  });
  it("are stepped over from run to run", () => {
    const rows = rowsOf(entries, all, [ended({ uid: "u0", startedAt: 0 }), failed]);
    expect(stepRun(rows, null, 1)).toBe(1);
  });
});

describe("one run", () => {
  it("is chosen by name or UID, and what is left out is counted", () => {
    for (const run of ["second", "u2"]) {
      const rows = rowsOf(entries, { ...all, run });
      expect([numbers(rows), rows.filtered]).toEqual([[5, 6], 3]);
    }
  });
});

describe("steps", () => {
  const rows = rowsOf(entries, all);
  it("go from event to event and stop at the ends", () => {
    expect(step(rows, null, 1)).toBe(1);
    expect(step(rows, null, -1)).toBe(6);
    expect(step(rows, 1, 1)).toBe(2);
    expect(step(rows, 2, 1)).toBe(4);
    expect(step(rows, 6, 1)).toBeNull();
    expect(step(rows, 1, -1)).toBeNull();
  });
  it("from an event that is not listed go to the nearest one that is", () => {
    expect(step(rows, 3, 1)).toBe(4);
    expect(step(rows, 3, -1)).toBe(2);
  });
  it("go from run to run", () => {
    expect(stepRun(rows, null, 1)).toBe(1);
    expect(stepRun(rows, 2, 1)).toBe(4);
    expect(stepRun(rows, 5, -1)).toBe(1);
    expect(stepRun(rows, 1, -1)).toBeNull();
  });
  it("from hit to hit begin again at the other end", () => {
    expect(hit(rows, 6, 1)).toBe(1);
    expect(hit(rows, 1, -1)).toBe(6);
    expect(hit(rows, null, 1)).toBe(1);
  });
  it("find the next event of a kind", () => {
    expect(stepTo(rows, null, 1, (index) => entries[index]?.status === "error")).toBe(2);
    expect(stepTo(rows, 2, 1, (index) => entries[index]?.status === "error")).toBeNull();
  });
  it("have nowhere to go in an empty list", () => {
    expect(step(rowsOf([], all), null, 1)).toBeNull();
  });
});
