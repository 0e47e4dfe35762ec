import type { Entry } from "../api/schema";

/** What a search goes through at once: call IDs in lower case, one a line, and whose they are. */
interface Part {
  readonly text: string;
  /** Where the lines begin, and the indexes of their entries. */
  readonly starts: Int32Array;
  readonly indexes: Int32Array;
}

/** CallIds finds entries by their call IDs. Every one has another, so that they are searched as one text. */
export class CallIds {
  private readonly parts: Part[] = [];
  private seen = 0;

  /** having are the entries of a list, the same one each time but for what was added to it, whose call ID has a word. */
  having(entries: readonly Entry[], list: readonly number[], word: string): Set<number> {
    this.grow(entries, list);
    const found = new Set<number>();
    for (const { text, starts, indexes } of this.parts) {
      let line = 0;
      for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, starts[line])) {
        line = lineOf(starts, at, line);
        found.add(indexes[line] as number);
        if (++line >= starts.length) break;
      }
    }
    return found;
  }

  private grow(entries: readonly Entry[], list: readonly number[]): void {
    const lines: string[] = [];
    const starts: number[] = [];
    const indexes: number[] = [];
    let start = 0;
    for (; this.seen < list.length; this.seen++) {
      const index = list[this.seen] as number;
      const id = entries[index]?.toolCallId?.toLowerCase();
      if (id === undefined) continue;
      lines.push(id);
      starts.push(start);
      indexes.push(index);
      start += id.length + 1;
    }
    if (lines.length > 0) this.parts.push({ text: lines.join("\n"), starts: Int32Array.from(starts), indexes: Int32Array.from(indexes) });
  }
}

/** lineOf is the line that a place is in, which is none before the first one that is asked for. */
function lineOf(starts: Int32Array, at: number, first: number): number {
  let low = first;
  let high = starts.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((starts[middle] as number) <= at) low = middle;
    else high = middle;
  }
  return low;
}

const made = new WeakMap<readonly number[], CallIds>();

/** callIdsOf are the call IDs of a list of entries. A list that only grows keeps them. */
export function callIdsOf(list: readonly number[]): CallIds {
  let ids = made.get(list);
  if (ids === undefined) made.set(list, (ids = new CallIds()));
  return ids;
}
