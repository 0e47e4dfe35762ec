/** A stretch of two lists: what both have, or what only one of them has. */
export interface Change {
  readonly kind: "same" | "removed" | "added";
  readonly value: readonly string[];
}

/**
 * changesOf is a shortest way from one list to another (Myers, "An O(ND) difference algorithm and its variations", 1986); where
 * something gives way to something else, what is removed comes first. null when more than that many items differ.
 */
export function changesOf(before: readonly string[], after: readonly string[], most: number): Change[] | null {
  const traces = search(before, after, most);
  if (traces === null) return null;
  // Of each list, what the other has not. The way is walked backwards, from where it ended.
  const removed = new Uint8Array(before.length);
  const added = new Uint8Array(after.length);
  let [x, y] = [before.length, after.length];
  for (let d = traces.length - 1; d > 0; d--) {
    const reach = traces[d - 1] as Int32Array;
    const k = x - y;
    const down = far(reach, d - 1, k - 1) < far(reach, d - 1, k + 1);
    x = far(reach, d - 1, down ? k + 1 : k - 1);
    y = x - (down ? k + 1 : k - 1);
    if (down) added[y] = 1;
    else removed[x] = 1;
  }
  return stretches(before, after, removed, added);
}

function stretches(before: readonly string[], after: readonly string[], removed: Uint8Array, added: Uint8Array): Change[] {
  const out: Change[] = [];
  const add = (kind: Change["kind"], from: readonly string[], start: number, end: number) => {
    if (end > start) out.push({ kind, value: from.slice(start, end) });
  };
  let [x, y] = [0, 0];
  while (x < before.length || y < after.length) {
    const [left, right] = [x, y];
    while (removed[x] === 1) x++;
    while (added[y] === 1) y++;
    add("removed", before, left, x);
    add("added", after, right, y);
    const same = x;
    for (; x < before.length && removed[x] === 0 && added[y] === 0; x++) y++;
    add("same", before, same, x);
  }
  return out;
}

/** far is how far a diagonal got with d differences. */
function far(reach: Int32Array, d: number, k: number): number {
  return k < -d || k > d ? -1 : (reach[(k + d) >> 1] as number);
}

/** search is how far each diagonal got, for each number of differences up to the one that was enough. */
function search(before: readonly string[], after: readonly string[], most: number): Int32Array[] | null {
  const traces: Int32Array[] = [];
  for (let d = 0; d <= most; d++) {
    const reach = new Int32Array(d + 1);
    const last = traces[d - 1];
    for (let k = -d; k <= d; k += 2) {
      let x = last === undefined ? 0 : Math.max(far(last, d - 1, k - 1) + 1, far(last, d - 1, k + 1));
      while (x < before.length && x - k < after.length && before[x] === after[x - k]) x++;
      reach[(k + d) >> 1] = x;
      if (x >= before.length && x - k >= after.length) return [...traces, reach];
    }
    traces.push(reach);
  }
  return null;
}
