import { describe, expect, it } from "vitest";
import { parse } from "../src/api/json";
import { longString, rowsOf, smaller, unfolded, type Row } from "../src/model/json-tree";

const all = { has: () => true } as unknown as ReadonlySet<string>;
const write = (rows: readonly Row[]) => rows.map((row) => (row.type === "range" ? "" : (row.key && `${row.key}:`) + row.text + (row.comma ? "," : ""))).join("");

describe("JSON as rows", () => {
  const value = { a: 1.5, s: 'x"y', list: [1, { deep: null }, []], o: {}, "k\n": true };
  it("unfolded is the JSON", () => {
    expect(write(rowsOf(value, all))).toBe(JSON.stringify(value));
  });
  it("folded has one row for what is folded, with what is in it", () => {
    expect(rowsOf(value, new Set()).map((row) => row.text + " " + row.note)).toEqual(["{…} 5 members"]);
    expect(rowsOf(value, new Set([""])).map((row) => row.text)).toEqual(["{", "1.5", '"x\\"y"', "[…]", "{}", "true", "}"]);
  });
  it("of a large list are ranges", () => {
    const list = Array.from({ length: 2500 }, (_, n) => n);
    expect(rowsOf(list, new Set([""])).map((row) => row.text)).toEqual(["[", "0 … 999", "1000 … 1999", "2000 … 2499", "]"]);
    const rows = rowsOf(list, new Set(["", "/r1"]));
    expect([rows.length, rows[3]?.text, rows[3]?.comma]).toEqual([1005, "1000", true]);
    expect(write(rowsOf(list, all))).toBe(JSON.stringify(list));
  });
  it("keep the digits of long numbers, where the browser can tell them", () => {
    const rows = rowsOf(parse('{"n":12345678901234567890}'), all);
    const exact = "rawJSON" in JSON;
    expect(rows[1]?.text).toBe(exact ? "12345678901234567890" : "12345678901234567000");
    expect(rows[1]?.type).toBe("number");
  });
  it("fold a long string", () => {
    const row = rowsOf("y".repeat(longString + 1), all)[0];
    expect([row?.text.length, row?.long.length, row?.note]).toEqual([202, longString + 1, "10001 characters"]);
    expect(rowsOf("y".repeat(longString), all)[0]?.long).toBe("");
  });
  it("are few at first, the outer levels before the inner ones", () => {
    const wide = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`k${n}`, { in: { more: [1, 2, 3] } }]));
    expect(rowsOf(wide, unfolded(wide, 1000)).length).toBe(182);
    const some = rowsOf(wide, unfolded(wide, 70)).length;
    expect(some).toBeGreaterThan(22);
    expect(some).toBeLessThanOrEqual(71);
    expect(rowsOf(Array.from({ length: 100_000 }), unfolded(Array.from({ length: 100_000 }), 70)).length).toBe(102);
  });
});

describe("the size of a value", () => {
  it.each<[string, unknown, boolean]>([
    ["a short text", "abc", true],
    ["a long text", "x".repeat(5000), false],
    ["a large list", Array.from({ length: 1e6 }, () => 1), false],
    ["a wide object", Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [n, n])), false],
    ["a small object", { a: [1, 2], b: { c: null } }, true],
  ])("of %s is known without writing it", (_name, value, want) => {
    expect(smaller(value, 1000)).toBe(want);
  });
});
