import { describe, expect, it } from "vitest";
import { Tail } from "../src/model/tail";

const encode = (text: string) => new TextEncoder().encode(text);
const header = '{"type":"trajectory"}\n';
const body = '{"type":"entry","text":"é"}\n'.repeat(3);
const end = (records: number) => `{"type":"complete","records":${records},"sha256":"${"0".repeat(64)}"}\n`;

function read(text: string, size: number): Tail {
  const tail = new Tail();
  const raw = encode(text);
  for (let at = 0; at < raw.length; at += size) tail.add(raw.slice(at, at + size));
  return tail;
}

describe("the end of an export", () => {
  it.each([1, 7, 64, 100_000])("is found in pieces of %i bytes", (size) => {
    const tail = read(header + body + end(3), size);
    expect(tail.end()).toEqual({ records: 3, sha256: "0".repeat(64), begins: encode(header + body).length });
  });
  it("is found after entries longer than what is remembered", () => {
    const long = `{"type":"entry","text":"${"x".repeat(5000)}"}\n`;
    expect(read(header + long + end(1), 512).end()?.begins).toBe(encode(header + long).length);
  });
  it("of a session without events has no entries", () => {
    expect(read(header + end(0), 10).end()?.records).toBe(0);
  });
  it.each([
    ["it is missing", header + body],
    ["it is cut", (header + body + end(3)).slice(0, -5)],
    ["its line has not ended", (header + body + end(3)).slice(0, -1)],
    ["its count is another", header + body + end(4)],
    ["it is what an entry holds", header + body + '{"type":"entry","type2":"complete","records":3}\n'],
    ["something stands behind it", header + body + end(3) + "{}\n"],
    ["there is nothing", ""],
  ])("is not taken for one when %s", (_name, text) => {
    expect(read(text, 13).end()).toBeNull();
  });
});
