import { describe, expect, it } from "vitest";
import { estimateMessage, textTokens } from "../src/model/estimate";

describe("the estimate", () => {
  it.each<[string, string, number]>([
    ["nothing", "", 0],
    ["four ASCII characters", "abcd", 1],
    ["a fifth one", "abcde", 2],
    ["two bytes", "é", 1],
    ["three bytes", "語", 2],
    ["four bytes", "😀", 2],
  ])("of %s is rounded up", (_name, text, want) => {
    expect(textTokens(text)).toBe(want);
  });
  it("of a message counts what surrounds it, and images at a flat rate", () => {
    const of = (message: object) => estimateMessage({ index: 0, role: "user", message: { role: "user", ...message } });
    expect(of({ content: "abcd" })).toBe(17);
    expect(of({ content: [{ type: "image" }] })).toBe(1216);
    expect(of({ content: [{ type: "text", text: "abcd" }] })).toBe(16 + Math.ceil('{"type":"text","text":"abcd"}'.length / 4));
    expect(of({ role: "toolResult", toolName: "read", toolCallId: "c1", content: [] })).toBe(18);
    expect(estimateMessage({ index: 0, role: "user", unavailable: "lost" })).toBeNull();
  });
});
