import { describe, expect, it } from "vitest";
import type { InputMessage, Source } from "../src/api/schema";
import { budgetParts, expansionLabel, originOf, usageRows, usedPercent } from "../src/model/origin";

const message = (source?: Source): InputMessage => ({ index: 0, role: "user", ...(source ? { source } : {}) });

describe("origins", () => {
  it.each<[string, Source | undefined, string, number | null]>([
    ["history", { type: "history", messageIndex: 12 }, "history #12", 12],
    ["a compaction", { type: "compaction", checkpointId: "cp-3", messageIndex: 40, summarizedBefore: 40 }, "compaction cp-3 (before #40)", 40],
    [
      "a runtime context with skills",
      { type: "runtime-context", snapshotIndex: 2, userTurn: 1, messageIndex: 5, skills: [{ id: "deploy", revision: "r7" }] },
      "runtime context 2 deploy@r7",
      5,
    ],
    ["a first runtime context", { type: "runtime-context", snapshotIndex: 0, userTurn: 0, messageIndex: 0 }, "runtime context 0", 0],
    ["a repair", { type: "tool-repair", messageIndex: 7, toolCallId: "call_1" }, "tool repair call_1", 7],
    ["nothing recorded", undefined, "source unavailable", null],
  ])("of %s are in words", (_name, source, label, history) => {
    const origin = originOf(message(source));
    expect([origin.label, origin.history]).toEqual([label, history]);
  });
  it("of expanded skills name id and revision", () => {
    expect(expansionLabel({ messageIndex: 1, snapshotIndex: 0, skills: [{ id: "a", revision: "1" }, { id: "b", revision: "2" }] })).toBe(
      "expanded skills a@1, b@2",
    );
  });
});

const budget = {
  provider: "p",
  model: "m",
  contextWindow: 1000,
  systemTokens: 100,
  messageTokens: 300,
  toolTokens: 0,
  estimatedInputTokens: 400,
  reservedOutputTokens: 200,
  safetyTokens: 50,
  inputLimit: 750,
  remainingInputTokens: 350,
  fits: true,
};

describe("the budget", () => {
  it("is divided without a rest, and without parts of nothing", () => {
    const parts = budgetParts(budget);
    expect(parts.map((part) => part.key)).toEqual(["system", "messages", "reserved", "safety", "free"]);
    expect(parts.reduce((sum, part) => sum + part.tokens, 0)).toBe(1000);
  });
  it("over the window has nothing free", () => {
    expect(budgetParts({ ...budget, messageTokens: 5000 }).some((part) => part.key === "free")).toBe(false);
  });
  it("in per cent is absent without a window", () => {
    expect(usedPercent(budget)).toBe(40);
    expect(usedPercent({ ...budget, usedPercent: 41 })).toBe(41);
    expect(usedPercent({ ...budget, contextWindow: 0 })).toBeNull();
    expect(usedPercent(undefined)).toBeNull();
  });
});

describe("usage", () => {
  it("keeps what was not reported apart from zero", () => {
    expect(usageRows({ input: 1, cacheRead: 2, output: 0 }).map((row) => row.value)).toEqual([3, 2, undefined, 0, undefined]);
    expect(usageRows(undefined).every((row) => row.value === undefined)).toBe(true);
  });
});
