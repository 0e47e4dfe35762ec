import { describe, expect, it } from "vitest";
import type { Entry } from "../src/api/schema";
import { CallIds } from "../src/model/call-ids";
import { entry } from "./entries";

const called = (...ids: (string | undefined)[]): Entry[] => ids.map((id, n) => entry({ sequence: n, ...(id !== undefined && { toolCallId: id }) }));

describe("call IDs", () => {
  const entries = called("toolu_1A", undefined, "call-22", "toolu_1B", "aa");
  it.each<[string, string, number[]]>([
    ["the beginning of several", "toolu_1", [0, 3]],
    ["one in another case", "1a", [0]],
    ["the last one", "aa", [4]],
    ["what one has twice, once", "2", [2]],
    ["nothing of any", "3", []],
  ])("are found by %s", (_name, word, want) => {
    expect([...new CallIds().having(entries, [0, 1, 2, 3, 4], word)]).toEqual(want);
  });
  it("are those of a list alone, and of what is added to it", () => {
    const ids = new CallIds();
    const list = [0, 1];
    expect([...ids.having(entries, list, "a")]).toEqual([0]);
    list.push(3, 4);
    expect([...ids.having(entries, list, "toolu")]).toEqual([0, 3]);
    expect([...ids.having(entries, list, "a")]).toEqual([0, 4]);
  });
  it("do not run into each other", () => {
    expect([...new CallIds().having(called("ab", "cd"), [0, 1], "bc")]).toEqual([]);
  });
});
