import { describe, expect, it } from "vitest";
import { rowsOf, step, stepRun, stepTo, type Filter } from "../src/model/rows";
import { entry } from "./entries";

const all: Filter = { agent: "main", types: null, search: "" };

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
  rowsOf(entries, filter).rows.map((row) => (row.type === "event" ? entries[row.index]?.sequence : row.type === "run" ? row.name : row.type));

describe("rows", () => {
  it("are one agent's, grouped by run; without a time they stand last", () => {
    expect(shape(all)).toEqual(["first", 2, 3, "second", 5, 6, "untimed", 7]);
  });
  it("count what is hidden by filters and what the viewer never lists", () => {
    const rows = rowsOf(entries, { ...all, types: ["tool"] });
    expect(rows.events.map((index) => entries[index]?.sequence)).toEqual([3]);
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
    expect(rows.events.map((index) => entries[index]?.sequence)).toEqual(want);
  });
  it("know the place of each event", () => {
    const rows = rowsOf(entries, all);
    expect(rows.rowOf.get(5)).toBe(5);
    expect(rows.placeOf.get(5)).toBe(3);
    expect(rows.rowOf.has(3)).toBe(false);
  });
  it("begin a run once, also where another run stands between its events", () => {
    const mixed = [entry({ sequence: 11 }), entry({ sequence: 12, run: { uid: "u2" } }), entry({ sequence: 13 })];
    const rows = rowsOf(mixed, all).rows;
    expect(rows.map((row) => (row.type === "event" ? mixed[row.index]?.sequence : "run"))).toEqual(["run", 11, 13, "run", 12]);
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
  it("find the next event of a kind", () => {
    expect(stepTo(rows, null, 1, (index) => entries[index]?.status === "error")).toBe(2);
    expect(stepTo(rows, 2, 1, (index) => entries[index]?.status === "error")).toBeNull();
  });
  it("have nowhere to go in an empty list", () => {
    expect(step(rowsOf([], all), null, 1)).toBeNull();
  });
});
