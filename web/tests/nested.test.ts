import { describe, expect, it } from "vitest";
import type { NestedCall } from "../src/api/schema";
import { executionsOf } from "../src/model/nested";

const call = (number: number, attempt: number, more: object = {}): NestedCall => ({ number, attempt, name: "add", ...more });
const short = (nested: NestedCall[]) => executionsOf({ nested }).map(({ attempt, calls }) => [attempt, ...calls.map((one) => [one.call.number, one.took, one.outcome])]);

describe("calls that code made", () => {
  it("stand by execution, in the order of their starts", () => {
    expect(short([call(1, 1), call(1, 2), call(2, 2)]).map(([attempt, ...calls]) => [attempt, calls.length])).toEqual([[1, 1], [2, 2]]);
  });
  it.each<[string, object, number | null, string]>([
    ["ended well", { startedAt: 5, endedAt: 25, audit: { outcome: "ok" } }, 20, "ok"],
    ["failed", { startedAt: 5, endedAt: 25, audit: { outcome: "timeout" } }, 20, "timeout"],
    ["has no recorded end", { startedAt: 5 }, null, ""],
    ["ended at a time that was not recorded", { startedAt: 5, audit: { outcome: "ok" } }, null, "ok"],
    ["ended with evidence of another kind", { startedAt: 5, endedAt: 6, audit: { outcome: 3 } }, 1, "ended"],
    ["ended without evidence", { startedAt: 5, endedAt: 6 }, 1, "ended"],
  ])("one that %s", (_name, more, took, outcome) => {
    expect(short([call(1, 1, more)])).toEqual([[1, [1, took, outcome]]]);
  });
  it("are none where there is no code", () => {
    expect(executionsOf({})).toEqual([]);
  });
});
