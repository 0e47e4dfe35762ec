import { describe, expect, it } from "vitest";
import type { Trajectory } from "../src/api/schema";
import { rowsOf } from "../src/model/rows";
import { join, place } from "../src/model/trajectory";
import { toAxis, toTime, warpOf } from "../src/timeline/idle";
import { lanes } from "../src/timeline/lanes";
import days from "./testdata/made-days.json";
import hour from "./testdata/made-hour.json";
import second from "./testdata/made-second.json";

// What the server says of sessions that the generator of the Go tests makes; test/page/fixture keeps these files as they are served.
const hours = 3600e6;

describe.each<[string, unknown, number, number, boolean]>([
  ["of a second", second, 1e6, 1, false],
  ["of an hour, with a run without times", hour, hours, 3, false],
  ["of three days, mostly idle", days, 72 * hours, 3, true],
])("a session %s", (_name, made, span, agents, idle) => {
  // What is read is changed in place.
  const read = () => structuredClone(made) as Trajectory;
  const page = read();
  const listed = [...page.entries, ...page.untimed].filter((entry) => !entry.hidden);
  const loaded = join(null, read());

  it("has all of its listed entries in the lists of its agents, once each", () => {
    expect(page.agents).toHaveLength(agents);
    const all = page.agents.flatMap(({ id }) => [...rowsOf(loaded, { agent: id, types: null, run: null, search: "" }).events]);
    expect(all.map((index) => loaded.entries[index]?.id).sort()).toEqual(listed.map((entry) => entry.id).sort());
  });
  it("has a mark for each listed entry with a time, within its time", () => {
    const placed = place(loaded.entries);
    expect(placed).toHaveLength(listed.filter((entry) => entry.capturedAt !== undefined).length);
    const times = placed.flatMap((mark) => [mark.start, mark.end]);
    const took = Math.max(...times) - Math.min(...times);
    expect(took).toBeLessThanOrEqual(span * 1.01);
    expect(took).toBeGreaterThan(span * 0.3);
    const rows = lanes(page.agents.map(({ id }) => id), placed);
    expect(rows).toHaveLength(2 * agents);
    expect(rows.reduce((sum, lane) => sum + lane.starts.length, 0)).toBe(placed.length);
  });
  it("has idle time to skip where most of it is idle, and gets its times back", () => {
    const placed = place(loaded.entries);
    const warp = warpOf(placed);
    expect(warp !== null).toBe(idle);
    if (warp === null) return;
    for (const { start } of placed) expect(Math.abs(toTime(warp, toAxis(warp, start)) - start)).toBeLessThan(2);
  });
  it("lists what has no time last", () => {
    const rows = rowsOf(loaded, { agent: "main", types: null, run: null, search: "" });
    const timed = [...rows.events].map((index) => loaded.entries[index]?.capturedAt !== undefined);
    expect(timed).toEqual([...timed].sort((a, b) => Number(b) - Number(a)));
    expect(timed.includes(false)).toBe(page.untimed.some((entry) => !entry.hidden));
  });
  it("is the same when it is read in two parts", () => {
    const half = Math.ceil(page.entries.length / 2);
    const first = join(null, { ...read(), entries: read().entries.slice(0, half), untimed: [], next: "x" });
    const both = join(first, { ...read(), entries: read().entries.slice(half) });
    expect(both.entries.map((entry) => entry.id)).toEqual(loaded.entries.map((entry) => entry.id));
  });
});
