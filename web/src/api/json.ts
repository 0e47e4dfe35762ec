// Numbers of recorded values can have more digits than a JavaScript number holds. Evidence must not be rounded, so a
// number that would be is kept as its source text: it is shown as it was written.

interface RawJSON {
  readonly rawJSON: string;
}

type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;
interface ExactJSON {
  parse(text: string, reviver: Reviver): unknown;
  rawJSON?(text: string): RawJSON;
  isRawJSON?(value: unknown): boolean;
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

/** isRaw tells a number that was kept as its source text. */
export function isRaw(value: unknown): boolean {
  return (JSON as unknown as ExactJSON).isRawJSON?.(value) ?? false;
}
