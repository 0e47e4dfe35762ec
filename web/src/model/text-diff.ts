import { type Change, changesOf } from "./changes";

/** A line of a comparison of two texts. A fold stands for lines that are the same in both. */
export type DiffLine =
  | { readonly kind: "same" | "added" | "removed"; readonly parts: readonly DiffPart[] }
  | { readonly kind: "fold"; readonly lines: number };

export interface DiffPart {
  readonly text: string;
  /** Differs within a line that is otherwise alike. */
  readonly changed: boolean;
}

// The work grows with the square of the number of differences, and the page must answer meanwhile: what differs in more
// than this is not compared. Counts, not times, so that the same texts always give the same.
export const longest = 400_000;
const mostLines = 1_000;
const mostWords = 300;
/** Within longer blocks of changed lines words are not compared, nor beyond so many characters in all. */
const longestBlock = 4_000;
const allBlocks = 40_000;
/** How many equal lines stand around what changed. */
const around = 3;

/** diffText compares two texts line by line, and word by word within changed lines; null when that would take too long. */
export function diffText(before: string, after: string): DiffLine[] | null {
  if (before.length + after.length > longest) return null;
  const changes = changesOf(split(before), split(after), mostLines);
  if (changes === null) return null;
  let left = allBlocks;
  const lines: DiffLine[] = [];
  for (let i = 0; i < changes.length; i++) {
    const change = changes[i];
    const next = changes[i + 1];
    if (!change) continue;
    if (change.kind === "removed" && next?.kind === "added") {
      const size = sizeOf(change.value) + sizeOf(next.value);
      left -= size;
      lines.push(...within(change.value, next.value, size <= longestBlock && left >= 0));
      i++;
      continue;
    }
    for (const text of change.value) lines.push({ kind: change.kind, parts: [{ text, changed: false }] });
  }
  return fold(lines);
}

function sizeOf(lines: readonly string[]): number {
  return lines.reduce((sum, line) => sum + line.length + 1, 0);
}

/** wordsOf cuts a text into words, blanks and single other characters. */
function wordsOf(lines: readonly string[]): string[] {
  return lines.join("\n").match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}

/** within shows lines that took each other's place, and what differs in them where the rest is alike. */
function within(before: readonly string[], after: readonly string[], byWord: boolean): DiffLine[] {
  const words = byWord ? changesOf(wordsOf(before), wordsOf(after), mostWords) : null;
  const alike = words?.some((word) => word.kind === "same" && word.value.join("").trim() !== "") ?? false;
  const lines = (kind: "removed" | "added", texts: readonly string[]): DiffLine[] =>
    words === null || !alike
      ? texts.map((text) => ({ kind, parts: [{ text, changed: false }] }))
      : byLine(words.filter((word) => word.kind === kind || word.kind === "same")).map((parts) => ({ kind, parts }));
  return [...lines("removed", before), ...lines("added", after)];
}

function byLine(words: readonly Change[]): DiffPart[][] {
  const lines: DiffPart[][] = [[]];
  for (const word of words) {
    word.value.join("").split("\n").forEach((text, i) => {
      if (i > 0) lines.push([]);
      if (text !== "") lines.at(-1)?.push({ text, changed: word.kind !== "same" });
    });
  }
  return lines;
}

function split(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** fold leaves of equal lines only those next to what changed. */
function fold(lines: readonly DiffLine[]): DiffLine[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, i) => {
    if (line.kind !== "same") near.fill(1, Math.max(i - around, 0), Math.min(i + around + 1, lines.length));
  });
  const out: DiffLine[] = [];
  lines.forEach((line, i) => {
    const last = out.at(-1);
    if (near[i] === 1) out.push(line);
    else if (last?.kind === "fold") out[out.length - 1] = { kind: "fold", lines: last.lines + 1 };
    else out.push({ kind: "fold", lines: 1 });
  });
  return out;
}
