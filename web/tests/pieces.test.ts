import { describe, expect, it } from "vitest";
import { pieces, portionEnd } from "../src/model/pieces";

describe("pieces of a text", () => {
  it.each<[string, string, number]>([
    ["nothing", "", 0],
    ["a short text", "a\nb\n", 1],
    ["long lines", `${"x".repeat(5000)}\n`.repeat(3), 3],
    ["one long line", "x".repeat(20_000), 3],
    ["many short lines", "1\n".repeat(1000), 7],
    ["characters of two halves", "😀".repeat(10_000), 3],
  ])("of %s are the text, and whole", (_name, text, want) => {
    const all = pieces(text);
    expect(all.join("")).toBe(text);
    expect(all.length).toBe(want);
    for (const piece of all) {
      expect(piece.length).toBeLessThanOrEqual(8_000);
      expect(encodeURIComponent(piece).length).toBeGreaterThan(0); // fails on half a character
    }
  });
  it("end at a line's end where there is one", () => {
    for (const piece of pieces("some words\n".repeat(5000)).slice(0, -1)) expect(piece.endsWith("\n")).toBe(true);
  });
});

describe("a portion of a text", () => {
  it.each<[string, string, number, number]>([
    ["ends where it shall", "abcdef", 3, 3],
    ["ends with the text", "abc", 9, 3],
    ["leaves an escape sequence whole", "abc\u001b[31mred", 6, 3],
    ["leaves a character whole", "ab😀c", 3, 2],
  ])("%s", (_name, text, at, want) => {
    expect(portionEnd(text, at)).toBe(want);
  });
});
