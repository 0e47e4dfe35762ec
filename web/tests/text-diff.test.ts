import { describe, expect, it } from "vitest";
import { diffText, longest, type DiffLine } from "../src/model/text-diff";

/** told writes lines with their mark; what changed within a line stands in brackets. */
function told(lines: readonly DiffLine[] | null): string[] {
  return (lines ?? []).map((line) =>
    line.kind === "fold"
      ? `… ${line.lines}`
      : { same: "  ", added: "+ ", removed: "- " }[line.kind] + line.parts.map((part) => (part.changed ? `[${part.text}]` : part.text)).join(""),
  );
}

describe("two texts", () => {
  it.each<[string, string, string, string[]]>([
    ["alike", "a\nb", "a\nb", ["… 2"]],
    ["with a line more", "a\n", "a\nb\n", ["  a", "+ b"]],
    ["with another word", "the pool is 40\n", "the pool is 8\n", ["- the pool is [40]", "+ the pool is [8]"]],
    ["out of nothing", "", "new", ["+ new"]],
  ])("%s", (_name, before, after, want) => {
    expect(told(diffText(before, after))).toEqual(want);
  });
  it("fold what is far from a change", () => {
    const lines = Array.from({ length: 20 }, (_, n) => `line ${n}`);
    const changed = lines.with(10, "other");
    expect(told(diffText(lines.join("\n"), changed.join("\n")))).toEqual([
      "… 7", "  line 7", "  line 8", "  line 9", "- line 10", "+ other", "  line 11", "  line 12", "  line 13", "… 6",
    ]);
  });
  it("that are too long are not compared", () => {
    expect(diffText("a".repeat(longest), "b")).toBeNull();
  });
  it("never lose a line", () => {
    const before = "a\n\nb c\nd";
    const after = "a\nb x\n\nd\ne\n";
    const kept = (kind: "added" | "removed") =>
      (diffText(before, after) ?? []).flatMap((line) => (line.kind === "same" || line.kind === kind ? [line.parts.map((part) => part.text).join("")] : [])).join("\n");
    expect(kept("removed")).toBe(before);
    expect(kept("added")).toBe(after.trimEnd());
  });
});
