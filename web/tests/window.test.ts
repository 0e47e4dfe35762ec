import { describe, expect, it } from "vitest";
import { scrollFor, windowOf } from "../src/model/window";

describe("the window of a list", () => {
  it.each([
    ["at the top", 0, { first: 0, last: 12 }],
    ["in the middle", 1000, { first: 33, last: 48 }],
    ["at the end", 100_000 * 28 - 280, { first: 99_988, last: 100_000 }],
  ])("%s holds what is in view and some rows on either side", (_name, top, want) => {
    expect(windowOf(top, 280, 28, 100_000, 2)).toEqual(want);
  });
  it("holds nothing of an empty list, wherever it was scrolled to", () => {
    expect(windowOf(5000, 280, 28, 0, 2)).toEqual({ first: 0, last: 0 });
  });
  it("never has more rows than fit and are spared", () => {
    for (let top = 0; top < 5000; top += 7) {
      const { first, last } = windowOf(top, 280, 28, 100_000, 2);
      expect(last - first).toBeLessThanOrEqual(15);
      expect(first * 28).toBeLessThanOrEqual(top);
      expect(last * 28).toBeGreaterThanOrEqual(top + 280);
    }
  });
});

describe("scrolling to a row", () => {
  it.each([
    ["leaves a row in view alone", 100, 10, 100],
    ["goes up to a row above, below the header", 1000, 10, 252],
    ["goes down to a row below", 0, 20, 308],
    ["does not go above the top", 100, 0, 0],
  ])("%s", (_name, top, row, want) => {
    expect(scrollFor(top, 280, 28, row, 28)).toBe(want);
  });
});
