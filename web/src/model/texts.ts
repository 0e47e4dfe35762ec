import type { Entry } from "../api/schema";
import { kindLabels, kindOf, kinds, type Kind } from "./kind";

/** What a search looks at that few entries have for themselves alone. */
const fields = (entry: Entry, kind: Kind): readonly (string | undefined)[] => [
  entry.title,
  entry.status,
  kindLabels[kind],
  entry.server,
  entry.model,
  entry.run?.name,
  entry.stopReason,
  entry.purpose,
];

/**
 * Texts numbers what entries say, in lower case: a long session says little that it has not said before, so that a search
 * looks at each text once and at an entry's number otherwise. An entry is looked at when it is first asked for.
 */
export class Texts {
  /** A text's number is its place here. */
  readonly all: string[] = [];
  private readonly known = new Map<string, number>();
  /** One more than an entry's number; 0 as long as it was not asked for. */
  private numbers = new Int32Array(0);
  private readonly last: { entry: Entry; number: number }[] = [];
  /** Two more than the place of an entry's kind, 1 for what has none; 0 as long as it was not asked for. */
  private kinds = new Uint8Array(0);

  /** kindOf is the kind of an entry: it is asked for all of them with every letter of a search. */
  kindOf(entries: readonly Entry[], index: number): Kind | null {
    if (index >= this.kinds.length) this.room(entries, index);
    const have = this.kinds[index] as number;
    if (have > 0) return kinds[have - 2] ?? null;
    const kind = kindOf(entries[index] as Entry);
    this.kinds[index] = 2 + (kind === null ? -1 : kinds.indexOf(kind));
    return kind;
  }

  numberOf(entries: readonly Entry[], index: number, kind: Kind): number {
    if (index >= this.numbers.length) this.room(entries, index);
    const have = this.numbers[index] as number;
    if (have > 0) return have - 1;
    const number = this.look(entries[index] as Entry, kind);
    this.numbers[index] = number + 1;
    return number;
  }

  private room(entries: readonly Entry[], index: number): void {
    const [numbers, of] = [this.numbers, this.kinds];
    this.numbers = new Int32Array(Math.max(entries.length, index + 1));
    this.numbers.set(numbers);
    this.kinds = new Uint8Array(this.numbers.length);
    this.kinds.set(of);
  }

  private look(entry: Entry, kind: Kind): number {
    const place = kinds.indexOf(kind);
    const before = this.last[place];
    // Mostly it is that of the entry of its kind before it.
    if (before !== undefined && alike(before.entry, entry)) return before.number;
    const text = fields(entry, kind)
      .map((field) => field ?? "")
      .join("\n")
      .toLowerCase();
    let number = this.known.get(text);
    if (number === undefined) {
      number = this.all.push(text) - 1;
      this.known.set(text, number);
    }
    this.last[place] = { entry, number };
    return number;
  }
}

function alike(a: Entry, b: Entry): boolean {
  return (
    a.title === b.title &&
    a.status === b.status &&
    a.server === b.server &&
    a.model === b.model &&
    a.run?.name === b.run?.name &&
    a.stopReason === b.stopReason &&
    a.purpose === b.purpose
  );
}

const made = new WeakMap<readonly Entry[], Texts>();

/** textsOf are the texts of a list of entries. A list that only grows keeps them. */
export function textsOf(entries: readonly Entry[]): Texts {
  let texts = made.get(entries);
  if (texts === undefined) made.set(entries, (texts = new Texts()));
  return texts;
}
