import { describe, expect, it } from "vitest";
import { print } from "../src/api/json";
import { parseSlices } from "../src/model/json-slices";
import { atOnce, inSlices } from "../src/model/slices";

const sliced = (text: string, size: number) => atOnce(parseSlices(text, size));

describe("JSON in slices", () => {
  it.each([
    ["a number", "12"],
    ["nothing inside", " [ ] "],
    ["an empty object", "{}"],
    ["strings that look like structure", '{"a":"]},{","b\\"":["\\\\","\\\\\\""],"c":{"d":"x"}}'],
    ["members longer than a slice", `[1,"${"x".repeat(50)}",{"long":"${"y".repeat(50)}","in":[${"1,".repeat(30)}2]},null]`],
    ["blanks everywhere", ' { "a" : [ 1 , 2 ,\n { "b" : true } ] , "c" : null } '],
    ["a member called like the prototype", '{"__proto__":{"x":1},"y":[{"__proto__":"longer than the slice is"}]}'],
    ["long numbers", '{"at":12345678901234567890,"b":[1.00000000000000000001]}'],
    ["the same key twice", '{"a":1,"b":"xxxxxxxxxxxxxxxxxxxxxxxxxxxx","a":2}'],
  ])("is %s", (_name, text) => {
    for (const size of [1, 3, 8, 20, 1000]) {
      expect(print(sliced(text, size))).toBe(print(atOnce(parseSlices(text, 1e9))));
      expect(sliced(text, size)).toEqual(/\d{17}/.test(text) ? sliced(text, 1e9) : JSON.parse(text));
    }
  });

  it.each(["[1,2", '{"a" 1}', '["a]', "[1]]", '{"a":1}x', "[1 2]", "[[1][2]]", "", "[1,]", '{"a":[1,2}}'])("refuses %s", (text) => {
    for (const size of [1, 4, 1000]) expect(() => sliced(text, size)).toThrow();
  });

  it("agrees with JSON.parse on whatever is generated", () => {
    let seed = 11;
    const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
    const make = (depth: number): unknown => {
      switch (random(depth > 4 ? 4 : 6)) {
        case 0:
          return random(1000) / 8;
        case 1:
          return ["", 'a"b', "\\", "\u2028 ü\n", "x".repeat(random(40))][random(5)];
        case 2:
          return null;
        case 3:
          return random(2) === 0;
        case 4:
          return Array.from({ length: random(6) }, () => make(depth + 1));
        default:
          return Object.fromEntries(Array.from({ length: random(6) }, (_, n) => [`k${n}"`, make(depth + 1)]));
      }
    };
    for (let round = 0; round < 500; round++) {
      const value = make(0);
      const text = JSON.stringify(value, null, random(3));
      expect(sliced(text, 1 + random(30))).toEqual(value);
    }
  });

  it("gives way, and stops when it is no longer wanted", async () => {
    const text = JSON.stringify(Array.from({ length: 200_000 }, (_, n) => ({ n, text: "some words" })));
    const abort = new AbortController();
    let turns = 0;
    const timer = setInterval(() => turns++);
    const value = await inSlices(parseSlices(text));
    clearInterval(timer);
    expect((value as unknown[]).length).toBe(200_000);
    expect(turns).toBeGreaterThan(0);
    const unwanted = inSlices(parseSlices(text), abort.signal);
    abort.abort();
    await expect(unwanted).rejects.toThrow();
  });
});
