import { describe, expect, it } from "vitest";
import { indent } from "../src/api/json";

describe("indent", () => {
  it("breaks lines and keeps every token's bytes", () => {
    const text = '{"a":1.50,"big":12345678901234567890,"e":1E+2,"s":"x\\u00e9\\"{,}","n":null,"o":{},"l":[],"m":[1,{"k":true}]}';
    const lines = indent(text);
    expect(lines.split("\n").slice(0, 3)).toEqual(["{", '  "a": 1.50,', '  "big": 12345678901234567890,']);
    expect(lines).toContain('"s": "x\\u00e9\\"{,}"');
    expect(lines).toContain('"o": {},');
    expect(lines.replace(/\n\s*|(?<="): /g, (space) => (space === ": " ? ":" : ""))).toBe(text);
  });
  it.each([
    ["text that is not JSON", 'not "JSON'],
    ["nothing", ""],
  ])("leaves %s as it is", (_name, text) => {
    expect(indent(text)).toBe(text);
  });
  it("is not confused by brackets in strings, nor by deep values", () => {
    expect(indent('["]","{"]')).toBe('[\n  "]",\n  "{"\n]');
    const deep = "[".repeat(2000) + "]".repeat(2000);
    expect(indent(deep).split("\n")).toHaveLength(3999);
  });
});
