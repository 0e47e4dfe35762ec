import { describe, expect, it } from "vitest";
import type { Entry, Trajectory } from "../src/api/schema";
import { durationOf, join, newest, place, severityOf, spanOf } from "../src/model/trajectory";
import { entry } from "./entries";

function page(entries: Entry[], over: Partial<Trajectory> = {}): Trajectory {
  return {
    session: { id: "ns:s", namespace: "ns", name: "s", uid: "u", deleted: false },
    agents: [],
    runs: [],
    entries,
    untimed: [],
    historicalEntries: [],
    notices: [],
    realTime: { message: "", untimed: 0, adjusted: 0 },
    counts: { entries: entries.length, hidden: 0, untimed: 0 },
    head: [],
    cursor: "c",
    ...over,
  };
}

describe("join", () => {
  it("adds pages and says whether there are more", () => {
    const first = join(null, page([entry({ sequence: 1 })], { next: "n" }));
    expect([first.partial, first.cursor]).toEqual([true, "n"]);
    const second = join(first, page([entry({ sequence: 2 })], { cursor: "end" }));
    expect([second.partial, second.cursor, second.entries.length]).toEqual([false, "end", 2]);
  });
  it("replaces an entry that comes again and keeps its place", () => {
    const first = join(null, page([entry({ sequence: 1, status: "pending" }), entry({ sequence: 2 })]));
    const second = join(first, page([entry({ sequence: 1, status: "completed" })]));
    expect(second.entries.map((e) => [e.sequence, e.status])).toEqual([
      [1, "completed"],
      [2, "completed"],
    ]);
    expect(first.entries[0]?.status).toBe("pending");
  });
  it("puts what was captured earlier, but read later, where it belongs", () => {
    const first = join(null, page([entry({ sequence: 1 }), entry({ sequence: 9 })]));
    const second = join(first, page([entry({ sequence: 5, agent: "helper" })]));
    expect(second.entries.map((e) => e.sequence)).toEqual([1, 5, 9]);
    expect(second.byId.get("e9")).toBe(2);
  });
  it("keeps entries without a time last", () => {
    const untimed = { ...entry({ sequence: 3 }), capturedAt: undefined } as unknown as Entry;
    const first = join(null, page([entry({ sequence: 1 })], { untimed: [untimed] }));
    const second = join(first, page([entry({ sequence: 4 })]));
    expect(second.entries.map((e) => e.sequence)).toEqual([1, 4, 3]);
  });
  it("knows the entries of each agent, in their order, and what the last page added", () => {
    const first = join(null, page([entry({ sequence: 1 }), entry({ sequence: 2, agent: "helper" })]));
    const second = join(first, page([entry({ sequence: 2, agent: "helper", status: "error" }), entry({ sequence: 3 }), entry({ sequence: 4, hidden: true })]));
    expect([...second.byAgent]).toEqual([
      ["main", [0, 2, 3]],
      ["helper", [1]],
    ]);
    expect([first.added, second.added]).toEqual([2, 1]);
  });
  it("lets one text stand for equal ones", () => {
    const read = JSON.parse(JSON.stringify([entry({ sequence: 1 }), entry({ sequence: 2 })])) as Entry[];
    const joined = join(null, page(read));
    expect(joined.entries[0]?.run).toBe(joined.entries[1]?.run);
  });
  it("lets the oldest go where there are more than the page holds", () => {
    const most = newest(join(null, page([1, 2, 3, 4].map((sequence) => entry({ sequence })))), 3);
    expect([most.entries.map((e) => e.sequence), most.dropped, most.byId.get("e2"), most.byId.has("e1")]).toEqual([[2, 3, 4], 1, 0, false]);
    const more = newest(join(most, page([entry({ sequence: 5 })])), 3);
    expect([more.entries.length, more.dropped]).toEqual([3, 2]);
  });
  it("replaces runs by their UID", () => {
    const run = { uid: "u1", agent: "main", attempts: 1, turns: 1, requests: 0, requestsWithoutUsage: 0, toolCalls: 0 };
    const first = join(null, page([], { runs: [{ ...run, status: "running" }] }));
    const second = join(first, page([], { runs: [{ ...run, status: "succeeded" }] }));
    expect(second.runs.get("u1")?.status).toBe("succeeded");
  });
});

describe("what stands on the timeline", () => {
  it.each([
    ["an input is an instant, whenever its answer came", { type: "modelInput", capturedAt: 5, endedAt: 90 }, { start: 5, end: 5 }],
    ["a tool reaches from its start to its end", { capturedAt: 5, startedAt: 7, endedAt: 20 }, { start: 7, end: 20 }],
    ["what has not ended is an instant", { capturedAt: 5, status: "running" }, { start: 5, end: 5 }],
    ["an end before the start is no negative length", { capturedAt: 5, startedAt: 9, endedAt: 3 }, { start: 9, end: 9 }],
  ] as const)("%s", (_name, part, want) => {
    expect(spanOf(entry(part as Partial<Entry>))).toEqual(want);
  });
  it("leaves out what has no time and what is hidden", () => {
    const untimed = { ...entry(), capturedAt: undefined } as unknown as Entry;
    expect(place([untimed, entry({ hidden: true, type: "lifecycle" }), entry({ sequence: 77 })]).map((mark) => mark.index)).toEqual([2]);
    expect(durationOf(untimed)).toBeNull();
  });
  it.each([
    ["completed", "normal"],
    ["pending", "open"],
    ["unfinished", "open"],
    ["cancelled", "cancelled"],
    ["error", "error"],
    ["rejected", "error"],
    ["unknown", "error"],
  ] as const)("takes %s for %s", (status, want) => {
    expect(severityOf(entry({ status }))).toBe(want);
  });
});
