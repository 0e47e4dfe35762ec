import { describe, expect, it } from "vitest";
import { ratioFor } from "../src/timeline/use-canvas";

describe("pixels to a CSS pixel", () => {
  it.each([
    ["at rest, however slow", 2, false, 40, 2],
    ["while it moves and is fast", 2, true, 1, 2],
    ["while it moves and is slow", 2, true, 8, 1],
    ["on a screen with one pixel, slow or not", 1, true, 8, 1],
    ["on a page that was made smaller", 0.5, true, 8, 0.5],
  ])("%s", (_name, device, moving, took, want) => {
    expect(ratioFor(device, moving, took)).toBe(want);
  });
});
