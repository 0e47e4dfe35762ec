import { parse } from "../api/json";
import type { Sliced } from "./slices";

/** How much is parsed at a time, in characters. */
const batch = 64 * 1024;

type Container = unknown[] | Record<string, unknown>;

/**
 * parseSlices is parse in parts: a large list or object is parsed a run of its members at a time, so that no step takes long.
 * One string is parsed at once however long it is. Text that is not JSON is an error as it is for parse.
 */
export function* parseSlices(text: string, size = batch): Sliced<unknown> {
  const reader = new Reader(text, size);
  const first = reader.blanks(0);
  if (!reader.opens(first)) return parse(text);
  const root = reader.container(first);
  const open: Container[] = [root];
  let at = first + 1;
  while (open.length > 0) {
    const target = open[open.length - 1] as Container;
    const run = reader.run(at);
    if (run.end > at) add(target, parse(wrap(target, text.slice(at, run.end))) as Container);
    if (run.closes) {
      const bare = text.charCodeAt(reader.before(at)) === comma && reader.blanks(at) === run.end;
      if (bare || text.charCodeAt(run.end) !== (Array.isArray(target) ? 93 : 125)) return parse(text);
      open.pop();
      at = reader.behind(run.end + 1, open.length === 0);
    } else if (run.end > at) {
      at = run.end + 1;
    } else {
      // The next member is larger than a run.
      const member = reader.member(at, !Array.isArray(target));
      if (reader.opens(member.value)) {
        const inner = reader.container(member.value);
        put(target, member.key, inner);
        open.push(inner);
        at = member.value + 1;
      } else {
        const end = reader.scalar(member.value);
        put(target, member.key, parse(text.slice(member.value, end)));
        at = reader.behind(end, false);
      }
    }
    yield;
  }
  if (reader.blanks(at) !== text.length) return parse(text);
  return root;
}

function wrap(target: Container, members: string): string {
  return Array.isArray(target) ? `[${members}]` : `{${members}}`;
}

function add(target: Container, members: Container): void {
  if (Array.isArray(target)) for (const member of members as unknown[]) target.push(member);
  else for (const [key, value] of Object.entries(members)) put(target, key, value);
}

function put(target: Container, key: string, value: unknown): void {
  if (Array.isArray(target)) target.push(value);
  // As JSON.parse does: a member is never the prototype.
  else if (key === "__proto__") Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  else target[key] = value;
}

const quote = 34;
const comma = 44;
const colon = 58;
const backslash = 92;

/** Reader finds the places where JSON can be cut. */
class Reader {
  constructor(
    private readonly text: string,
    private readonly size: number,
  ) {}

  opens(at: number): boolean {
    const code = this.text.charCodeAt(at);
    return code === 123 || code === 91;
  }

  container(at: number): Container {
    return this.text.charCodeAt(at) === 123 ? {} : [];
  }

  blanks(from: number): number {
    let at = from;
    for (let code = this.text.charCodeAt(at); code === 32 || code === 10 || code === 13 || code === 9; code = this.text.charCodeAt(at)) at++;
    return at;
  }

  /** before is the place of what stands before a place, blanks left out. */
  before(from: number): number {
    let at = from - 1;
    while (at >= 0 && this.blanks(at) > at) at--;
    return at;
  }

  /** run is the largest number of whole members from a place on that is no longer than a batch; empty when the first one is longer. */
  run(from: number): { end: number; closes: boolean } {
    let depth = 0;
    let cut = from;
    for (let at = from; at < this.text.length; at++) {
      if (at - from > this.size) return { end: cut, closes: false };
      const code = this.text.charCodeAt(at);
      if (code === quote) at = this.string(at) - 1;
      else if (code === 123 || code === 91) depth++;
      else if (code === 125 || code === 93) {
        if (depth === 0) return { end: at, closes: true };
        depth--;
      } else if (code === comma && depth === 0) cut = at;
    }
    throw new SyntaxError("The JSON ends too early.");
  }

  /** member is the key and the place of the value of the member at a place. */
  member(from: number, keyed: boolean): { key: string; value: number } {
    let at = this.blanks(from);
    if (!keyed) return { key: "", value: at };
    const end = this.scalar(at);
    const key = parse(this.text.slice(at, end));
    at = this.blanks(end);
    if (typeof key !== "string" || this.text.charCodeAt(at) !== colon) throw new SyntaxError(`There is no member at ${from}.`);
    return { key, value: this.blanks(at + 1) };
  }

  /** scalar is where a string, number or word ends. */
  scalar(from: number): number {
    if (this.text.charCodeAt(from) === quote) return this.string(from);
    const end = /[\s,:\]}]/g;
    end.lastIndex = from;
    return end.exec(this.text)?.index ?? this.text.length;
  }

  /** behind is where the next member begins, or the place of a closing bracket. */
  behind(from: number, last: boolean): number {
    const at = this.blanks(from);
    if (last) return at;
    const code = this.text.charCodeAt(at);
    if (code === 125 || code === 93) return at;
    if (code !== comma) throw new SyntaxError(`Nothing parts two members at ${at}.`);
    return at + 1;
  }

  private string(from: number): number {
    for (let at = this.text.indexOf('"', from + 1); at >= 0; at = this.text.indexOf('"', at + 1)) {
      let slashes = 0;
      while (this.text.charCodeAt(at - 1 - slashes) === backslash) slashes++;
      if (slashes % 2 === 0) return at + 1;
    }
    throw new SyntaxError("A string has no end.");
  }
}
