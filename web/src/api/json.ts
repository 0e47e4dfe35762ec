// Numbers of recorded values can have more digits than a JavaScript number holds. Evidence must not be rounded, so a
// number that would be is kept as its source text: it is shown as it was written.

interface RawJSON {
  readonly rawJSON: string;
}

type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;
interface ExactJSON {
  parse(text: string, reviver: Reviver): unknown;
  rawJSON?(text: string): RawJSON;
}

/** What cannot be a number of the API itself, whose times have 16 digits and begin with 1. */
const long = /\d{17}|[2-9]\d{15}|\d\.\d{14}/;

/** parse is JSON.parse without a loss of digits, as far as the browser can tell them. */
export function parse(text: string): unknown {
  const exact = JSON as unknown as ExactJSON;
  const raw = exact.rawJSON;
  if (raw === undefined || !long.test(text)) return JSON.parse(text);
  return exact.parse(text, (_key, value, context) => {
    const source = context?.source;
    if (typeof value !== "number" || source === undefined || String(value) === source) return value;
    return raw.call(JSON, source);
  });
}

/** print writes a value with an indent of two; what parse kept as source text is written as it was. */
export function print(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? "";
}

/** Deeper levels are no longer moved to the right: nobody could read them there. */
const deepest = 40;

/**
 * indent breaks JSON text into lines without parsing it: every token keeps its bytes, so that what is shown differs from what
 * was stored only in the space between tokens. Text that is not JSON is given back as it is.
 */
export function indent(text: string): string {
  const out: string[] = [];
  let depth = 0;
  let before = "";
  let at = 0;
  const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+|\s+/gsy;
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    const word = match[0];
    at = token.lastIndex;
    if (word.trim() === "") continue;
    const closes = word === "}" || word === "]";
    if (closes) depth--;
    // Nothing stands between the brackets of an empty value.
    if (closes ? !opens(before) : opens(before) || before === ",") out.push(newline(depth));
    out.push(word === ":" ? ": " : word);
    if (opens(word)) depth++;
    before = word;
  }
  return at === text.length ? out.join("") : text;
}

function opens(word: string): boolean {
  return word === "{" || word === "[";
}

function newline(depth: number): string {
  return "\n" + "  ".repeat(Math.min(Math.max(depth, 0), deepest));
}
