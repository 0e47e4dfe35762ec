import { describe, expect, it } from "vitest";
import { bytes, count, date, duration, elapsed, inputTokens, plainText, shortDigest, shortTime, time, tokens } from "../src/model/format";

const moment = Date.UTC(2026, 2, 14, 8, 26, 53, 7) * 1000 + 450;

describe("times", () => {
  it("have milliseconds", () => {
    expect(time(moment, "utc")).toBe("08:26:53.007");
    expect(date(moment, "utc")).toBe("2026-03-14 08:26:53.007 UTC");
  });
  it.each([
    ["minutes", 60_000_000, "08:26"],
    ["seconds", 1_000_000, "08:26:53"],
    ["milliseconds", 1_000, "08:26:53.007"],
    ["microseconds", 10, "08:26:53.007450"],
  ])("on an axis of %s have the places that it needs", (_name, step, want) => {
    expect(shortTime(moment, "utc", step)).toBe(want);
  });
  it.each([
    [450, "450 µs"],
    [1_500, "1.5 ms"],
    [42_400, "42 ms"],
    [1_230_000, "1.23 s"],
    [42_420_000, "42.4 s"],
    [60_000_000, "1 m"],
    [92_000_000, "1 m 32 s"],
    [7_380_000_000, "2 h 3 m"],
  ])("of %i microseconds are %s long", (micros, want) => {
    expect(duration(micros)).toBe(want);
  });
  it.each([
    [0, 1_000_000, "+0 s"],
    [1_500_000, 100_000, "+1.5 s"],
    [90_000_000, 30_000_000, "+1 m 30 s"],
    [-2_000_000, 1_000_000, "−2 s"],
    [250, 50, "+0.25 ms"],
  ])("%i after the beginning, in steps of %i, are %s", (micros, step, want) => {
    expect(elapsed(micros, step)).toBe(want);
  });
});

describe("counts", () => {
  it("have separators", () => {
    expect(count(1234567)).toBe("1,234,567");
    expect(bytes(1536)).toBe("1.5 KiB");
    expect(bytes(1)).toBe("1 byte");
  });
  it("of input hold the cached tokens, which are part of it", () => {
    expect(inputTokens({ input: 10, cacheRead: 5, cacheWrite: 1 })).toBe(16);
  });
  it("that were not reported are not zero", () => {
    expect(inputTokens(undefined)).toBeNull();
    expect(inputTokens({ cacheRead: 5 })).toBeNull();
    expect(tokens(undefined)).toBe("");
    expect(tokens({ output: 7 })).toBe("? → 7");
    expect(tokens({ input: 0, output: 0 })).toBe("0 → 0");
  });
});

describe("texts", () => {
  it("of a terminal lose their escapes", () => {
    expect(plainText("\u001b[31mred\u001b[0m \u001b]0;title\u0007plain")).toBe("red plain");
  });
  it("of digests are short and recognisable", () => {
    expect(shortDigest(`sha256:${"a".repeat(64)}`)).toBe("sha256:aaaaaaaaaaaa…");
  });
});
