import { describe, expect, it } from "vitest";
import { Lru } from "../src/model/lru";

describe("what was used last", () => {
  it("stays, and what was not looked at for longest goes", () => {
    const lru = new Lru<number>(2, 100);
    lru.set("a", 1, 1);
    lru.set("b", 2, 1);
    lru.get("a");
    lru.set("c", 3, 1);
    expect(["a", "b", "c"].map((key) => lru.get(key))).toEqual([1, undefined, 3]);
  });
  it("weighs no more than it may", () => {
    const lru = new Lru<number>(10, 10);
    lru.set("a", 1, 6);
    lru.set("b", 2, 6);
    lru.set("too heavy", 3, 11);
    expect(["a", "b", "too heavy"].map((key) => lru.get(key))).toEqual([undefined, 2, undefined]);
    lru.set("b", 4, 10);
    expect(lru.get("b")).toBe(4);
    lru.clear();
    lru.set("c", 5, 10);
    expect([lru.get("b"), lru.get("c")]).toEqual([undefined, 5]);
  });
});
