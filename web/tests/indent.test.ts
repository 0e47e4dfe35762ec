import { describe, expect, it } from "vitest";
import { Indenter } from "../src/model/indent";

const indent = (text: string, size = 1e9) => {
  const indenter = new Indenter();
  let out = "";
  for (let at = 0; at < text.length; at += size) out += indenter.feed(text.slice(at, at + size));
  return out;
};

describe("lines of JSON", () => {
  const text = '{"a":1.50,"big":12345678901234567890,"e":1E+2,"s":"x\\u00e9\\"{,}\\\\","n":null,"o":{},"l":[],"m":[1,{"k":true}]}';
  it("keep every token's bytes", () => {
    const lines = indent(text);
    expect(lines.split("\n").slice(0, 3)).toEqual(["{", '  "a": 1.50,', '  "big": 12345678901234567890,']);
    expect(lines).toContain('"s": "x\\u00e9\\"{,}\\\\"');
    expect(lines).toContain('"o": {},');
    expect(lines.replace(/\n\s*|(?<="): /g, (space) => (space === ": " ? ":" : ""))).toBe(text);
  });
  it("are the same whatever the parts in which the text comes", () => {
    for (const size of [1, 2, 3, 7, 20]) expect(indent(text, size)).toBe(indent(text));
  });
  it("are not confused by brackets in strings, nor by deep values", () => {
    expect(indent('["]","{"]')).toBe('[\n  "]",\n  "{"\n]');
    expect(indent("")).toBe("");
    const deep = "[".repeat(2000) + "]".repeat(2000);
    expect(indent(deep).split("\n")).toHaveLength(3999);
  });
});
