import { beforeAll, describe, expect, it, vi } from "vitest";
import type { Kind } from "../src/model/kind";
import { kinds } from "../src/model/kind";
import { lanes, type Placed, type Severity } from "../src/timeline/lanes";
import { agentHeight, laneAt, Painter, topOf, type Scene } from "../src/timeline/paint";
import type { Palette } from "../src/timeline/palette";

const colour = { error: 0xff0000aa, cancelled: 0xff00aa00, surface: 0xffffffff, grid: 0xff111111, edge: 0xff222222, band: 0xff333333, idle: 0xff444444 };
const free = colour.surface;
const palette: Palette = {
  kinds: kinds.map((_, n) => 0xff000010 + n), open: kinds.map((_, n) => 0xff000020 + n), ...colour,
  ground: "ground", line: "line", focus: "focus", muted: "muted", onMark: "onMark", font: "font",
};
const kindColour = (kind: Kind) => palette.kinds[kinds.indexOf(kind)];

let index = 0;
const mark = (kind: Kind, start: number, end = start, severity: Severity = "normal"): Placed => ({ index: index++, agent: "main", kind, severity, start, end });

/** painted paints one agent's marks on 200 pixels, a microsecond each. */
function painted(marks: Placed[], over: Partial<Scene> = {}) {
  const words: string[] = [];
  const frames: number[][] = [];
  let pixels = new Uint32Array();
  const ctx = {
    setTransform: () => {},
    putImageData: (image: { data: Uint8ClampedArray<ArrayBuffer> }) => (pixels = new Uint32Array(image.data.buffer)),
    measureText: (text: string) => ({ width: 6 * text.length }),
    fillText: (text: string) => words.push(text),
    strokeRect: (...box: number[]) => frames.push(box),
  };
  const scene: Scene = {
    lanes: lanes(["main"], marks), view: { from: 0, to: 200 }, width: 200, height: agentHeight, scrollTop: 0, ratio: 1, palette,
    selected: -1, agent: "other", ticks: [], breaks: [], label: (event) => `event ${event - (marks[0]?.index ?? 0)}`, ...over,
  };
  new Painter().paint(ctx as unknown as CanvasRenderingContext2D, scene);
  return { words, frames, at: (x: number, y: number) => pixels[y * 200 * scene.ratio + x] };
}

beforeAll(() => {
  vi.stubGlobal("ImageData", class {
    constructor(readonly data: Uint8ClampedArray, readonly width: number, readonly height: number) {}
  });
});

const model = topOf(0) + 2; // the upper edge of marks of the model's row
const tools = topOf(1) + 2;

describe("a mark", () => {
  it("has the colour of its type, from its beginning to its end", () => {
    const { at } = painted([mark("output", 20, 80)]);
    expect([at(19, model), at(20, model), at(78, model + 15), at(80, model)]).toEqual([free, kindColour("output"), kindColour("output"), free]);
    expect([at(30, model - 1), at(30, model + 16)]).toEqual([free, free]);
  });
  it("that has not ended is lighter, a cancelled one grey, an error red with a corner cut off", () => {
    const { at } = painted([mark("tool", 0, 20, "open"), mark("tool", 40, 60, "cancelled"), mark("tool", 80, 100, "error")]);
    expect([at(5, tools), at(45, tools), at(85, tools)]).toEqual([palette.open[kinds.indexOf("tool")], colour.cancelled, colour.error]);
    expect([at(98, tools), at(98, tools + 10)]).toEqual([free, colour.error]);
  });
  it("of reasoning is hatched, one of MCP pale inside of an edge; neither when it is an error", () => {
    const { at } = painted([mark("reasoning", 0, 60), mark("mcp", 0, 60), mark("mcp", 100, 160, "error")]);
    const row = Array.from({ length: 12 }, (_, x) => at(x + 10, model + 3));
    expect(new Set(row).size).toBe(2);
    expect([at(30, tools), at(0, tools + 8), at(30, tools + 8)].map((pixel) => pixel === kindColour("mcp"))).toEqual([true, true, false]);
    expect(at(130, tools + 8)).toBe(colour.error);
  });
  it("keeps an error visible that stands inside of a longer mark", () => {
    const { at } = painted([...[0, 1, 2, 3].map((n) => mark("mcp", n, 190)), mark("tool", 100, 101, "error")]);
    const column = Array.from({ length: 16 }, (_, y) => at(101, tools + y));
    expect(column).toContain(colour.error);
  });
  it("that is selected has a frame", () => {
    const marks = [mark("output", 20, 80), mark("output", 100, 150)];
    expect(painted(marks, { selected: marks[1]?.index ?? -1 }).frames).toEqual([[99, model - 1, 51, 18]]);
  });
});

describe("an input", () => {
  it("is a diamond with a free edge, over what lies under it", () => {
    const { at } = painted([mark("output", 0, 190), mark("input", 100)]);
    const middle = model + 8;
    expect([at(101, middle), at(101, middle - 6), at(101 + 6, middle)]).toEqual(Array(3).fill(kindColour("input")));
    expect([at(101, middle - 7), at(101 + 7, middle)]).toEqual([free, free]);
    expect(at(101 + 8, middle)).toBe(kindColour("output"));
  });
  it("has a frame when it is selected, and is drawn however close others are", () => {
    const marks = [mark("input", 100), mark("input", 101), mark("input", 102)];
    const { frames, at } = painted(marks, { selected: marks[1]?.index ?? -1 });
    expect(frames).toHaveLength(1);
    expect(at(102, model + 2)).toBe(kindColour("input"));
  });
  it("that failed shows among others", () => {
    const { at } = painted([mark("input", 100), mark("input", 101, 101, "error"), mark("input", 102)]);
    expect(at(102, model + 2)).toBe(colour.error);
  });
});

describe("the ground", () => {
  it("has a band for the listed agent, an edge below each agent, lines of the axis and hatched breaks", () => {
    const { at } = painted([], { agent: "main", ticks: [{ time: 50, at: 50, step: 50 }], breaks: [{ from: 100, to: 140 }] });
    expect([at(10, 5), at(10, agentHeight - 1), at(50, 5)]).toEqual([colour.band, colour.edge, colour.grid]);
    const row = Array.from({ length: 28 }, (_, x) => at(103 + x, model + 8));
    expect([row.includes(colour.idle), row.includes(colour.band)]).toEqual([true, true]);
    expect([at(102, 5), at(132, 5)]).toEqual([colour.edge, colour.edge]);
    expect(at(110, model + 8) === at(110, model + 9) && at(111, model + 8) === at(111, model + 9) && at(112, model + 8) === at(112, model + 9)).toBe(false);
  });
});

describe("words", () => {
  it("stand in marks that have the room, and not over a pattern", () => {
    expect(painted([mark("output", 0, 20), mark("output", 20, 120), mark("reasoning", 120, 199)]).words).toEqual(["event 1"]);
  });
  it("are cut to what is in view of a mark, and left out when little is", () => {
    const label = () => "query_metrics";
    expect(painted([mark("tool", 130, 5000)], { label }).words).toEqual(["query_me…"]);
    expect(painted([mark("tool", 150, 5000)], { label }).words).toEqual([]);
  });
});

describe("places", () => {
  it("are the same for drawing and for the pointer", () => {
    const all = lanes(["main", "worker"], [mark("tool", 0, 10), mark("mcp", 5, 20)]);
    expect(laneAt(all, topOf(1) + 3)).toEqual({ lane: all[1], sub: 0 });
    expect(laneAt(all, topOf(1) + 15)).toEqual({ lane: all[1], sub: 1 });
    expect(laneAt(all, topOf(2) + 3)).toEqual({ lane: all[2], sub: 0 });
    expect(laneAt(all, 1)).toBeNull();
    expect(laneAt(all, 2 * agentHeight + 10)).toBeNull();
  });
});
