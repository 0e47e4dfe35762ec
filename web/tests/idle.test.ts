import { describe, expect, it } from "vitest";
import { idleOf, straight, stretches, toAxis, toTime, visibleBreaks, warpOf } from "../src/timeline/idle";

const span = (start: number, end: number) => ({ start, end });
// Ten of a thousand are busy, in three bursts.
const bursts = [span(0, 4), span(2, 4), span(500, 503), span(997, 1000)];

describe("idle time", () => {
  it("is what no mark covers", () => {
    expect(idleOf(bursts)).toEqual({ gaps: [{ from: 4, to: 500 }, { from: 503, to: 997 }], part: 0.99 });
    expect(idleOf([...bursts].reverse())).toEqual(idleOf(bursts));
    expect(idleOf([])).toEqual({ gaps: [], part: 0 });
  });
  it.each([
    ["little of it", [span(0, 40), span(60, 100)]],
    ["one instant", [span(5, 5)]],
    ["nothing at all", []],
  ])("is not left out where there is %s", (_name, marks) => {
    expect(warpOf(marks)).toBeNull();
  });
});

describe("an axis without idle time", () => {
  const warp = warpOf(bursts) ?? straight;
  it("keeps the length of what is not idle and shortens the rest", () => {
    expect(warp.breaks).toHaveLength(2);
    expect(toAxis(warp, 4) - toAxis(warp, 0)).toBe(4);
    expect(toAxis(warp, 503) - toAxis(warp, 500)).toBeCloseTo(3);
    expect(toAxis(warp, 1000) - toAxis(warp, 0)).toBeCloseTo(12.5);
  });
  it("leads to the same time and back, before, between, inside of and after breaks", () => {
    for (const time of [-10, 0, 4, 17, 250, 499, 500, 501.5, 700, 999, 1000, 2000]) expect(toTime(warp, toAxis(warp, time))).toBeCloseTo(time, 6);
  });
  it("never turns the order of times", () => {
    let last = -Infinity;
    for (let time = -5; time < 1010; time++) {
      expect(toAxis(warp, time)).toBeGreaterThan(last);
      last = toAxis(warp, time);
    }
  });
  it("has stretches between breaks, cut to a view", () => {
    const whole = { from: -1, to: toAxis(warp, 1001) };
    expect(stretches(warp, whole).map((part) => [part.from + part.by, part.to + part.by].map(Math.round))).toEqual([[-1, 4], [500, 503], [997, 1001]]);
    expect(visibleBreaks(warp, whole)).toHaveLength(2);
    expect(visibleBreaks(warp, { from: 0, to: 2 })).toEqual([]);
    expect(stretches(straight, { from: 3, to: 9 })).toEqual([{ from: 3, to: 9, by: 0 }]);
  });
});
