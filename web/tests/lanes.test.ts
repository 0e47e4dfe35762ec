import { describe, expect, it } from "vitest";
import type { Kind } from "../src/model/kind";
import { eachRun, firstVisible, gapBefore, hit, kindIn, lanes, neighbour, points, rasterise, selectedIn, severityIn, type Lane, type Placed, type Raster, type Severity } from "../src/timeline/lanes";

let next = 0;
function mark(kind: Kind, start: number, end = start, severity: Severity = "normal", agent = "main"): Placed {
  return { index: next++, agent, kind, severity, start, end };
}

function lane(marks: Placed[], row: "model" | "tools" = "tools") {
  const found = lanes(["main"], marks).find((candidate) => candidate.row === row);
  if (!found) throw new Error("no lane");
  return found;
}

const raster = (over: Partial<Raster> = {}): Raster => ({ view: { from: 0, to: 1000 }, width: 100, least: 2, selected: -1, ...over });

describe("lanes", () => {
  it("are two for every agent, in the agents' order, also for one without marks", () => {
    const all = lanes(["main", "quiet"], [mark("tool", 0, 5), mark("output", 1, 2)]);
    expect(all.map((l) => `${l.agent}/${l.row}/${l.starts.length}`)).toEqual(["main/model/1", "main/tools/1", "quiet/model/0", "quiet/tools/0"]);
  });
  it("are sorted by start, ties by the order of the entries", () => {
    const marks = [mark("tool", 30), mark("tool", 10), mark("mcp", 10)];
    expect([...lane(marks).events]).toEqual([marks[1]?.index, marks[2]?.index, marks[0]?.index]);
  });
  it("put concurrent tools below each other, four deep at most, whatever the zoom", () => {
    const l = lane([0, 1, 2, 3, 4, 5].map((n) => mark("tool", n, 100 + n)));
    expect(l.depth).toBe(4);
    expect([...l.subs]).toEqual([0, 1, 2, 3, 0, 1]);
    expect(lane([mark("tool", 0, 10), mark("tool", 10, 20)]).depth).toBe(1);
  });
  it("find what reaches into a view from before it", () => {
    const l = lane([mark("tool", 0, 900), mark("tool", 1, 2), mark("tool", 800, 801)]);
    expect(firstVisible(l, 500)).toBe(0);
    expect(firstVisible(l, 901)).toBe(3);
  });
});

interface Run {
  sub: number;
  x: number;
  width: number;
  kind: number;
  severity: number;
  selected: boolean;
}

function runsOf(l: Lane, r: Raster): Run[] {
  const cells = new Uint8Array(r.width * l.depth).fill(99);
  rasterise(l, r, 56, cells);
  const out: Run[] = [];
  for (let sub = 0; sub < l.depth; sub++) {
    eachRun(cells, sub * r.width, r.width, (x, end, value) =>
      out.push({ sub, x, width: end - x, kind: kindIn(value), severity: severityIn(value), selected: selectedIn(value) }),
    );
  }
  return out;
}

/** random gives the same numbers each time. */
function random(seed: number): () => number {
  return () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
}

describe("rasterise", () => {
  it("shows every mark, however small", () => {
    const runs = runsOf(lane([mark("tool", 500, 500)]), raster());
    expect(runs).toEqual([{ sub: 0, x: 50, width: 2, kind: 3, severity: 0, selected: false }]);
  });
  it("gives a shared pixel to the gravest", () => {
    const marks = [mark("tool", 500, 500), mark("tool", 501, 501, "error"), ...Array.from({ length: 200 }, (_, n) => mark("tool", 502 + n / 100))];
    const l = lane(marks);
    const runs = runsOf(l, raster());
    expect(runs.some((run) => run.severity === 3 && run.width >= 2)).toBe(true);
  });
  it("gives a shared pixel to the selected mark before all", () => {
    const marks = [mark("tool", 500, 500), mark("tool", 500, 500, "error")];
    const runs = runsOf(lane(marks), raster({ selected: marks[0]?.index ?? -1 }));
    expect(runs.some((run) => run.selected)).toBe(true);
  });
  it("keeps a pixel between neighbours that touch", () => {
    const runs = runsOf(lane([mark("tool", 0, 500), mark("tool", 500, 1000)]), raster());
    expect(runs.map((run) => [run.x, run.width])).toEqual([
      [0, 49],
      [50, 49],
    ]);
  });
  it("cuts what is wider than the view", () => {
    const runs = runsOf(lane([mark("tool", -5000, 5000)]), raster());
    expect(runs).toEqual([{ sub: 0, x: 0, width: 100, kind: 3, severity: 0, selected: false }]);
  });
  it("draws nothing that lies outside the view", () => {
    expect(runsOf(lane([mark("tool", -50, -10), mark("tool", 2000, 2001)]), raster())).toEqual([]);
  });
  it("agrees with a walk over every mark, for marks drawn at random", () => {
    const next = random(7);
    const marks = Array.from({ length: 400 }, () => {
      const start = next() * 1400 - 200;
      return mark("output", start, start + next() * 20);
    });
    const covered = new Set<number>();
    for (const run of runsOf(lane(marks, "model"), raster())) for (let x = run.x; x < run.x + run.width; x++) covered.add(x);
    for (const m of marks) {
      const left = Math.floor(m.start / 10);
      if (m.end >= 0 && left >= 0 && left < 100) expect(covered.has(left)).toBe(true);
    }
  });
});

describe("coarser pictures", () => {
  const next = random(3);
  // Ten thousand marks within an hour, in bursts, a few of them errors and a few of them long.
  const marks = Array.from({ length: 10_000 }, (_, n) => {
    const start = Math.floor(n / 100) * 36_000_000 + next() * 9_000_000;
    const length = n % 500 === 0 ? 20_000_000 : next() * 3_000;
    return mark(n % 3 === 0 ? "reasoning" : "output", start, start + length, n % 700 === 0 ? "error" : "normal");
  });
  const all = lane(marks, "model");
  const views = [
    { from: -72_000_000, to: 3_700_000_000 },
    { from: 0, to: 500_000_000 },
    { from: 36_000_000, to: 36_500_000 },
  ];
  it("are much smaller", () => {
    const sizes = all.levels[0]?.map((level) => level.starts.length) ?? [];
    expect(sizes[0]).toBe(10_000);
    expect(sizes.at(-1)).toBeLessThanOrEqual(600);
    expect(all.levels[0]?.every((level, i, list) => i === 0 || level.grain > (list[i - 1]?.grain ?? 0))).toBe(true);
  });
  it.each(views)("differ from all marks by a pixel at most, from $from to $to", (view) => {
    const exact = { ...all, levels: all.levels.map((levels) => levels.slice(0, 1)) };
    const at = { ...raster({ view, width: 1000 }) };
    const covered = (l: Lane) => {
      const out = new Uint8Array(1000);
      for (const run of runsOf(l, at)) out.fill(1, run.x, run.x + run.width);
      return out;
    };
    const [want, have] = [covered(exact), covered(all)];
    want.forEach((one, x) => {
      if (one === 1) expect(have.slice(Math.max(x - 1, 0), x + 2), `pixel ${x}`).toContain(1);
    });
    have.forEach((one, x) => {
      if (one === 1) expect(want.slice(Math.max(x - 1, 0), x + 2), `pixel ${x}`).toContain(1);
    });
  });
  it.each(views)("lose no error, from $from to $to", (view) => {
    const grave = new Set(runsOf(all, raster({ view, width: 1000 })).filter((run) => run.severity === 3).flatMap((run) => Array.from({ length: run.width }, (_, n) => run.x + n)));
    const scale = 1000 / (view.to - view.from);
    for (const m of marks) {
      const x = Math.floor((m.start - view.from) * scale);
      if (m.severity === "error" && x >= 0 && x < 999) expect(grave.has(x) || grave.has(x + 1) || grave.has(x - 1), `error at ${x}`).toBe(true);
    }
  });
  it("show the selected mark in its own place", () => {
    const chosen = marks[4321];
    const runs = runsOf(all, raster({ view: views[0] as Raster["view"], width: 1000, selected: chosen?.index ?? -1 })).filter((run) => run.selected);
    expect(runs).toHaveLength(1);
    expect(runs[0]?.x).toBe(Math.floor((((chosen?.start ?? 0) + 72_000_000) / 3_772_000_000) * 1000));
  });
});

describe("points", () => {
  it("keep a distance, and errors are there nevertheless", () => {
    const inputs = Array.from({ length: 100 }, (_, n) => mark("input", n * 10, n * 10, n === 55 ? "error" : "normal"));
    const shown = points(lane(inputs, "model"), raster(), 13);
    expect(shown.map((point) => point.x)).toEqual([0, 13, 26, 39, 52, 65, 78, 91, 55]);
    expect(shown.at(-1)?.severity).toBe(3);
  });
  it("have the selected one last", () => {
    const inputs = [mark("input", 100), mark("input", 110), mark("input", 120)];
    const shown = points(lane(inputs, "model"), raster({ selected: inputs[1]?.index ?? -1 }), 13);
    expect(shown.map((point) => [point.x, point.selected])).toEqual([
      [10, false],
      [11, true],
    ]);
  });
});

describe("hit", () => {
  it("means the mark under the pointer", () => {
    const marks = [mark("tool", 0, 100), mark("tool", 200, 300)];
    expect(hit(lane(marks), raster(), 25, 0, 4)).toBe(marks[1]?.index);
  });
  it("means the nearest one within the slop, and none beyond it", () => {
    const marks = [mark("tool", 0, 100), mark("tool", 200, 300)];
    expect(hit(lane(marks), raster(), 12, 0, 4)).toBe(marks[0]?.index);
    expect(hit(lane(marks), raster(), 17, 0, 4)).toBe(marks[1]?.index);
    expect(hit(lane(marks), raster(), 15, 0, 4)).toBeNull();
  });
  it("means the error where marks share a pixel, as it is drawn", () => {
    const marks = [mark("tool", 500, 500, "error"), mark("tool", 500, 500)];
    const l = lane(marks);
    expect(l.depth).toBe(1);
    expect(hit(l, raster(), 50, 0, 4)).toBe(marks[0]?.index);
  });
  it("means only the sub-row that is pointed at", () => {
    const marks = [mark("tool", 0, 100), mark("tool", 0, 100)];
    expect(hit(lane(marks), raster(), 5, 0, 4)).toBe(marks[0]?.index);
    expect(hit(lane(marks), raster(), 5, 1, 4)).toBe(marks[1]?.index);
  });
});

describe("neighbour", () => {
  it("is the mark before or after in the same row", () => {
    const marks = [mark("tool", 10), mark("mcp", 20)];
    const l = lane(marks);
    const [first, second] = [marks[0]?.index ?? -1, marks[1]?.index ?? -1];
    expect(neighbour(l, first, 1)).toBe(second);
    expect(neighbour(l, second, -1)).toBe(first);
    expect(neighbour(l, second, 1)).toBeNull();
    expect(neighbour(l, 9999, 1)).toBeNull();
  });
});

describe("the gap before a mark", () => {
  it("is how long its row was idle", () => {
    const marks = [mark("tool", 0, 100), mark("tool", 20, 50), mark("tool", 160, 170), mark("tool", 165, 180)];
    expect(marks.map((m) => gapBefore(lane(marks), m.index))).toEqual([null, null, 60, null]);
  });
});
