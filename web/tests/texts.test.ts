import { describe, expect, test } from "vitest";
import { kindOf, type Kind } from "../src/model/kind";
import { textsOf } from "../src/model/texts";
import { entry } from "./entries";

describe("texts of entries", () => {
  test("are one for entries that say the same, in lower case", () => {
    const entries = [entry({ title: "Read" }), entry({ title: "write" }), entry({ title: "Read" })];
    const texts = textsOf(entries);
    const numbers = entries.map((one, i) => texts.numberOf(entries, i, kindOf(one) as Kind));
    expect(numbers).toEqual([0, 1, 0]);
    expect(texts.all[0]).toContain("read");
    expect(texts.all[0]).not.toContain("Read");
  });

  test.each<[string, Parameters<typeof entry>[0]]>([
    ["title", { title: "Other" }],
    ["status", { status: "failed" }],
    ["kind", { type: "mcp" }],
    ["server", { server: "other" }],
    ["model", { model: "other" }],
    ["run's name", { run: { uid: "u1", name: "other" } }],
    ["stop reason", { stopReason: "length" }],
    ["purpose", { purpose: "title" }],
  ])("differ by %s", (_name, part) => {
    const entries = [entry(), entry(part)];
    const texts = textsOf(entries);
    const [one, other] = entries.map((each, i) => texts.numberOf(entries, i, kindOf(each) as Kind));
    expect(one).not.toBe(other);
  });

  test("are kept while a list grows, and begin anew with another list", () => {
    const entries = [entry()];
    const texts = textsOf(entries);
    texts.numberOf(entries, 0, "tool");
    entries.push(entry({ title: "later" }));
    expect(textsOf(entries)).toBe(texts);
    expect(texts.all[texts.numberOf(entries, 1, "tool")]).toContain("later");
    expect(textsOf([...entries])).not.toBe(texts);
  });
});
