import { isRaw, print } from "../api/json";

// JSON as rows, of which there are only those that somebody unfolded. Read from top to bottom and unfolded, the rows are the JSON.

/** Members of a list or object stand in ranges when they are more than this. */
const range = 1_000;
/** A string of more characters is folded. */
export const longString = 10_000;
const stringHead = 200;

export interface Row {
  /** Where it stands: the places of the members that lead to it. */
  readonly path: string;
  readonly depth: number;
  /** What can be unfolded, what is unfolded, and what is neither. */
  readonly fold: "open" | "closed" | "none";
  /** What the row says: key, value or bracket, and comma. */
  readonly key: string;
  readonly text: string;
  readonly comma: boolean;
  /** Of a folded row, what is in it. */
  readonly note: string;
  /** The type that the value is shown as. */
  readonly type: "string" | "number" | "word" | "bracket" | "range";
  /** A string that is too long for a row; empty for all others. */
  readonly long: string;
  readonly position: number;
  readonly siblings: number;
}

/** smaller says whether a value is JSON of at most so many characters, without writing it. */
export function smaller(value: unknown, limit: number): boolean {
  return weigh(value, limit) >= 0;
}

/** weigh subtracts what a value takes from what is left; negative when there is not enough. */
function weigh(value: unknown, left: number): number {
  if (typeof value === "string") return left - value.length - 2;
  if (typeof value !== "object" || value === null || isRaw(value)) return left - 5;
  left -= 2;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length && left >= 0; i++) left = weigh(value[i], left - 2);
    return left;
  }
  for (const key in value) {
    if (left < 0) break;
    left = weigh((value as Record<string, unknown>)[key], left - key.length - 6);
  }
  return left;
}

/** unfolded are the paths that are open at first: level by level, as long as there are not too many rows. */
export function unfolded(value: unknown, most: number): Set<string> {
  const open = new Set<string>();
  let rows = 1;
  let level: [string, unknown][] = [["", value]];
  while (level.length > 0) {
    const next: [string, unknown][] = [];
    for (const [path, inside] of level) {
      if (!isContainer(inside)) continue;
      const size = sizeOf(inside);
      const cost = size > range ? Math.ceil(size / range) : size;
      if (size === 0 || (rows + cost > most && path !== "")) continue;
      open.add(path);
      rows += cost + 1;
      if (size <= range) keysOf(inside).forEach((key, i) => next.push([`${path}/${i}`, member(inside, key)]));
    }
    level = next;
  }
  return open;
}

/** rowsOf writes the rows of a value of which some paths are open. */
export function rowsOf(value: unknown, open: ReadonlySet<string>): Row[] {
  const rows: Row[] = [];
  write(rows, open, { path: "", depth: 0, key: "", value, comma: false, position: 1, siblings: 1 });
  return rows;
}

interface Place {
  readonly path: string;
  readonly depth: number;
  readonly key: string;
  readonly value: unknown;
  readonly comma: boolean;
  readonly position: number;
  readonly siblings: number;
}

function write(rows: Row[], open: ReadonlySet<string>, place: Place): void {
  const { value, path, depth } = place;
  const base = { path, depth, key: place.key, comma: place.comma, note: "", long: "", position: place.position, siblings: place.siblings } as const;
  if (!isContainer(value)) {
    rows.push(leaf(base, value));
    return;
  }
  const size = sizeOf(value);
  const [first, last] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (size === 0) {
    rows.push({ ...base, fold: "none", type: "bracket", text: first + last });
    return;
  }
  const what = Array.isArray(value) ? (size === 1 ? "item" : "items") : size === 1 ? "member" : "members";
  if (!open.has(path)) {
    rows.push({ ...base, fold: "closed", type: "bracket", text: `${first}…${last}`, note: `${size} ${what}` });
    return;
  }
  rows.push({ ...base, fold: "open", type: "bracket", text: first, comma: false });
  const keys = keysOf(value);
  if (size <= range) members(rows, open, place, keys, 0, size);
  else ranges(rows, open, place, keys);
  rows.push({ ...base, path: `${path}/end`, fold: "none", type: "bracket", key: "", text: last });
}

function members(rows: Row[], open: ReadonlySet<string>, { path, depth, value }: Place, keys: readonly string[] | Indexes, from: number, to: number): void {
  for (let i = from; i < to; i++) {
    const key = Array.isArray(value) ? i : (keys.at(i) as string);
    write(rows, open, {
      path: `${path}/${i}`,
      depth: depth + 1,
      key: typeof key === "number" ? "" : JSON.stringify(key),
      value: member(value, key),
      comma: i + 1 < keys.length,
      position: i + 1,
      siblings: keys.length,
    });
  }
}

function ranges(rows: Row[], open: ReadonlySet<string>, place: Place, keys: readonly string[] | Indexes): void {
  const many = Math.ceil(keys.length / range);
  for (let n = 0; n < many; n++) {
    const [from, to] = [n * range, Math.min((n + 1) * range, keys.length)];
    const path = `${place.path}/r${n}`;
    const fold = open.has(path) ? "open" : "closed";
    rows.push({
      path, depth: place.depth + 1, fold, key: "", text: `${from} … ${to - 1}`, comma: false, note: "", type: "range", long: "", position: n + 1, siblings: many,
    });
    if (fold === "open") members(rows, open, { ...place, depth: place.depth + 1 }, keys, from, to);
  }
}

function leaf(base: Omit<Row, "fold" | "type" | "text">, value: unknown): Row {
  if (typeof value !== "string") return { ...base, fold: "none", type: typeof value === "number" || isRaw(value) ? "number" : "word", text: print(value) || "undefined" };
  if (value.length <= longString) return { ...base, fold: "none", type: "string", text: JSON.stringify(value) };
  const head = JSON.stringify(value.slice(0, stringHead)).slice(0, -1);
  return { ...base, fold: "none", type: "string", text: `${head}…`, note: `${value.length} characters`, long: value };
}

/** The keys of a list, which nobody needs to write down. */
interface Indexes {
  readonly length: number;
  at(i: number): number;
  forEach(run: (key: number, i: number) => void): void;
}

function keysOf(value: object): readonly string[] | Indexes {
  if (!Array.isArray(value)) return Object.keys(value);
  const indexes: Indexes = { length: value.length, at: (i) => i, forEach: (run) => value.forEach((_, i) => run(i, i)) };
  return indexes;
}

function sizeOf(value: object): number {
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

function member(value: unknown, key: string | number): unknown {
  return (value as Record<string | number, unknown>)[key];
}

function isContainer(value: unknown): value is object {
  return typeof value === "object" && value !== null && !isRaw(value);
}
