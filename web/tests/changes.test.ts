import { describe, expect, it } from "vitest";
import { changesOf } from "../src/model/changes";

const told = (before: string, after: string, most = 100) =>
  changesOf([...before], [...after], most)?.map(({ kind, value }) => ({ same: "=", removed: "-", added: "+" })[kind] + value.join(""));

/** common is how many items the longest common part of two lists has. */
function common(a: string, b: string): number {
  let row = new Array<number>(b.length + 1).fill(0);
  for (const one of a) {
    const next = [0];
    for (let j = 1; j <= b.length; j++) next.push(one === b[j - 1] ? (row[j - 1] ?? 0) + 1 : Math.max(row[j] ?? 0, next[j - 1] ?? 0));
    row = next;
  }
  return row.at(-1) ?? 0;
}

describe("the changes between two lists", () => {
  it.each<[string, string, string, string[]]>([
    ["that are the same", "abc", "abc", ["=abc"]],
    ["that are empty", "", "", []],
    ["out of nothing", "", "ab", ["+ab"]],
    ["to nothing", "ab", "", ["-ab"]],
    ["in the middle", "abcd", "axcd", ["=a", "-b", "+x", "=cd"]],
    ["at both ends", "xab", "aby", ["-x", "=ab", "+y"]],
    ["with nothing in common", "ab", "xyz", ["-ab", "+xyz"]],
  ])("%s", (_name, before, after, want) => {
    expect(told(before, after)).toEqual(want);
  });
  it("are none when there are more than were asked for", () => {
    expect(told("abc", "xbc", 2)).toEqual(["-a", "+x", "=bc"]);
    expect(told("abc", "xbc", 1)).toBeUndefined();
  });
  it("lead from one to the other, and are as few as can be", () => {
    let state = 7;
    const random = (below: number) => (state = (state * 1103515245 + 12345) % 2147483648) % below;
    for (let round = 0; round < 400; round++) {
      const text = () => Array.from({ length: random(14) }, () => "abc"[random(3)]).join("");
      const [before, after] = [text(), text()];
      const changes = changesOf([...before], [...after], 100) ?? [];
      const side = (kind: "removed" | "added") => changes.filter((one) => one.kind === "same" || one.kind === kind).flatMap((one) => one.value).join("");
      expect(side("removed")).toBe(before);
      expect(side("added")).toBe(after);
      const same = changes.filter((one) => one.kind === "same").flatMap((one) => one.value).length;
      expect(same).toBe(common(before, after));
    }
  });
});
