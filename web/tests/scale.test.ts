import { describe, expect, it } from "vitest";
import { dragThumb, extentOf, narrowest, pan, position, reveal, tickStep, ticks, thumb, timeAt, wheelFactor, zoom, type View } from "../src/timeline/scale";

const hour = 3_600_000_000;
const extent = extentOf(0, hour);

describe("the extent", () => {
  it("has room on either side of the marks", () => {
    expect(position(extent, 0)).toBeGreaterThan(0.015);
    expect(position(extent, hour)).toBeLessThan(0.985);
  });
  it("of one instant is a second around it", () => {
    expect(extentOf(5, 5)).toEqual({ from: -499_995, to: 500_005 });
  });
});

describe("zoom", () => {
  it("keeps the time under the pointer, step by step and over a hundred steps there and back", () => {
    const at = 0.37;
    let view: View = zoom(extent, extent, 0.5, 0.5);
    const time = timeAt(view, at);
    for (const factor of [...Array<number>(60).fill(0.9), ...Array<number>(60).fill(1 / 0.9)]) {
      view = zoom(view, extent, at, factor);
      expect(Math.abs(position(view, time) - at) * 1280).toBeLessThan(0.5);
    }
  });
  it("ends at one millisecond over the whole width", () => {
    const view = zoom(extent, extent, 0.5, 1e-12);
    expect(view.to - view.from).toBeCloseTo(narrowest, 3);
  });
  it("ends at the extent, and is then the extent itself", () => {
    expect(zoom(zoom(extent, extent, 0.9, 0.5), extent, 0.9, 100)).toBe(extent);
  });
  it("never shows what lies outside the extent", () => {
    const view = zoom(pan(zoom(extent, extent, 0, 0.1), extent, -1), extent, 0, 5);
    expect(view.from).toBe(extent.from);
    expect(view.to).toBeLessThan(extent.to);
  });
  it.each([
    ["a mouse wheel's notch", 120, 0, Math.exp(0.3)],
    ["a small step of a touchpad", -4, 0, Math.exp(-0.02)],
    ["lines", 1, 1, Math.exp(0.08)],
    ["a very fast wheel", -9000, 0, Math.exp(-0.3)],
  ])("takes %s for a bounded factor", (_name, delta, mode, want) => {
    expect(wheelFactor(delta, mode)).toBeCloseTo(want, 9);
  });
});

describe("pan", () => {
  const view = zoom(extent, extent, 0.5, 0.1);
  it("keeps the width, also at the ends", () => {
    for (const by of [0.1, -0.1, 1e6, -1e6]) {
      const moved = pan(view, extent, by);
      expect(moved.to - moved.from).toBeCloseTo(view.to - view.from, 3);
    }
    expect(pan(view, extent, 1e6).to).toBe(extent.to);
  });
  it("is left alone by reveal when the time is well inside", () => {
    expect(reveal(view, extent, timeAt(view, 0.5))).toBe(view);
    expect(position(reveal(view, extent, hour * 0.9), hour * 0.9)).toBeCloseTo(0.5, 6);
  });
});

describe("the scroll bar's thumb", () => {
  it("fills the track when everything is shown", () => {
    expect(thumb(extent, extent, 0.04)).toEqual({ start: 0, size: 1 });
  });
  it("can always be caught, and its ends are the extent's", () => {
    const view = zoom(extent, extent, 1, 1e-9);
    const atEnd = thumb(pan(view, extent, 1e12), extent, 0.04);
    expect(atEnd.size).toBe(0.04);
    expect(atEnd.start).toBeCloseTo(0.96, 9);
    expect(thumb(pan(view, extent, -1e12), extent, 0.04).start).toBe(0);
  });
  it("leads the view when it is dragged", () => {
    const view = pan(zoom(extent, extent, 0, 0.5), extent, -1);
    const moved = dragThumb(view, extent, 0.04, 0.25);
    expect(thumb(moved, extent, 0.04).start).toBeCloseTo(thumb(view, extent, 0.04).start + 0.25, 9);
  });
});

describe("ticks", () => {
  it.each([
    ["a hundred microseconds", 100, 10],
    ["three milliseconds", 3_000, 500],
    ["a second", 1_000_000, 100_000],
    ["half a minute", 30_000_000, 5_000_000],
    ["an hour", hour, 600_000_000],
    ["three days", 72 * hour, 12 * hour],
    ["three years", 3 * 365 * 24 * hour, 112 * 24 * hour],
  ])("of %s stand at a pleasant step", (_name, span, want) => {
    expect(tickStep({ from: 0, to: span }, 10)).toBe(want);
  });
  it("count from the origin and stay inside the view", () => {
    const all = ticks({ from: 1_500_000, to: 6_500_000 }, 1_000_000, 250_000);
    expect(all.map((tick) => tick.time)).toEqual([2_250_000, 3_250_000, 4_250_000, 5_250_000, 6_250_000]);
  });
});
