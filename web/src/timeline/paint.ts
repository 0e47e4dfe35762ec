import { kinds } from "../model/kind";
import { eachRun, kindIn, points, rasterise, selectedIn, severityIn, type Lane, type Point, type Wide } from "./lanes";
import type { Palette } from "./palette";
import { mix, Pixels, type Box } from "./pixels";
import { position, type Tick, type View } from "./scale";

// Heights in CSS pixels. They depend on nothing that is zoomed.
export const rowHeight = 20;
const rowGap = 2;
const agentGap = 8;
export const agentHeight = 2 * rowHeight + agentGap;

export interface Scene {
  readonly lanes: readonly Lane[];
  readonly view: View;
  /** Width, height and how far the lanes are scrolled, in CSS pixels; ratio is device pixels to a CSS pixel. */
  readonly width: number;
  readonly height: number;
  readonly scrollTop: number;
  readonly ratio: number;
  readonly palette: Palette;
  /** The selected event's index, or -1, and the agent whose events are listed. */
  readonly selected: number;
  readonly agent: string;
  readonly ticks: readonly Tick[];
  /** Stretches of the axis that stand for idle time. */
  readonly breaks: readonly View[];
  /** What is written into a wide mark. */
  readonly label: (event: number) => string;
}

/** topOf is where a lane's row begins within all lanes. */
export function topOf(lane: number): number {
  return Math.floor(lane / 2) * agentHeight + agentGap / 2 + (lane % 2) * rowHeight;
}

/** laneAt is the lane and the sub-row at a height within all lanes; null between agents and below the last. */
export function laneAt(lanes: readonly Lane[], y: number): { lane: Lane; sub: number } | null {
  const within = (y % agentHeight) - agentGap / 2;
  if (within < 0 || within >= 2 * rowHeight) return null;
  const row = within < rowHeight ? 0 : 1;
  const lane = lanes[Math.floor(y / agentHeight) * 2 + row];
  if (!lane) return null;
  const sub = Math.floor(((within - row * rowHeight - rowGap) / (rowHeight - 2 * rowGap)) * lane.depth);
  return { lane, sub: Math.min(Math.max(sub, 0), lane.depth - 1) };
}

/** Painter draws scenes of one canvas and keeps the memory for them. */
export class Painter {
  private pixels = new Pixels(1, 1);
  private cells = new Uint8Array(0);

  /** paint draws the visible part of all lanes: ground and marks as pixels, put on the canvas at once, then frames and words. */
  paint(ctx: CanvasRenderingContext2D, scene: Scene): void {
    const width = Math.max(Math.round(scene.width * scene.ratio), 1);
    const height = Math.max(Math.round(scene.height * scene.ratio), 1);
    if (this.pixels.width !== width || this.pixels.height !== height) this.pixels = new Pixels(width, height);
    if (this.cells.length < 4 * width) this.cells = new Uint8Array(4 * width);
    const first = Math.max(Math.floor(scene.scrollTop / agentHeight), 0) * 2;
    const last = Math.min((Math.floor((scene.scrollTop + scene.height) / agentHeight) + 1) * 2, scene.lanes.length);
    const over: Over = { frames: [], words: [] };
    this.lanes(scene, first, last, over);
    breaks(this.pixels, scene, last);
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.putImageData(this.pixels.image(), 0, 0);
    if (over.frames.length === 0 && over.words.length === 0) return;
    ctx.setTransform(scene.ratio, 0, 0, scene.ratio, 0, 0);
    overlay(ctx, scene, over);
  }

  /**
   * lanes goes down the picture once: rows of marks, and between them what they stand on. Memory is what a picture costs,
   * so that no pixel but those of patterns is written twice.
   */
  private lanes(scene: Scene, first: number, last: number, over: Over): void {
    const { pixels, cells } = this;
    const { palette, ratio } = scene;
    const hair = Math.max(Math.round(ratio), 1);
    const surface = lined(scene, pixels.width, palette.surface);
    const band = lined(scene, pixels.width, palette.band);
    let done = 0;
    for (let i = first; i < last; i += 2) {
      const ground = scene.lanes[i]?.agent === scene.agent ? band : surface;
      for (const lane of [i, i + 1]) {
        const marks = scene.lanes[lane];
        const top = (topOf(lane) + rowGap - scene.scrollTop) * ratio;
        if (marks) done = paintLane(pixels, cells, scene, { lane: marks, top, ground, done }, over);
      }
      const below = Math.round((Math.floor(i / 2 + 1) * agentHeight - scene.scrollTop) * ratio);
      pixels.repeat(ground, done, below);
      pixels.fill({ x: 0, y: below - hair, width: pixels.width, height: hair }, palette.edge);
      done = below;
    }
    pixels.repeat(surface, done, pixels.height);
  }
}

/** lined is a row of pixels of what marks stand on: a colour with the lines of the axis. */
function lined(scene: Scene, width: number, colour: number): Uint32Array {
  const row = new Uint32Array(width).fill(colour);
  const hair = Math.max(Math.round(scene.ratio), 1);
  for (const tick of scene.ticks) {
    const x = Math.round(position(scene.view, tick.at) * width);
    row.fill(scene.palette.grid, Math.max(x, 0), Math.max(x + hair, 0));
  }
  return row;
}

/** What is drawn over the pixels, in device pixels. */
interface Over {
  readonly frames: Box[];
  readonly words: { box: Box; text: string; inner: boolean }[];
}

/** breaks hatches what stands for idle time. It comes after the lanes, whose rows of pixels are repeated, and leaves the last marks before it. */
function breaks(pixels: Pixels, scene: Scene, last: number): void {
  const { palette, ratio } = scene;
  const { width, height } = pixels;
  const hair = Math.max(Math.round(ratio), 1);
  const bottom = Math.min(((last / 2) * agentHeight - scene.scrollTop) * ratio, height);
  for (const idle of scene.breaks) {
    const x = Math.round(position(scene.view, idle.from) * width) + Math.round(3 * ratio);
    // The point that ends it stands half in front of its time.
    const right = Math.max(Math.round(position(scene.view, idle.to) * width) - Math.round((pointRadius + 2) * ratio), x + hair);
    pixels.hatch({ x, y: 0, width: right - x, height: bottom }, palette.idle, ratio);
    for (const edge of [x - hair, right]) pixels.fill({ x: edge, y: 0, width: hair, height: bottom }, palette.edge);
  }
}

const hatched = kinds.indexOf("reasoning");
const instant = kinds.indexOf("input");
const outlined = kinds.indexOf("mcp");

/** Lengths in CSS pixels: the least width of a mark, of one with a shape and of one with words; between points. */
const leastWidth = 2;
const shapeWidth = 10;
const wordWidth = 56;
const pointRoom = 13;
/** Half the height of a point, and of the mark that stands where points have no room. */
const pointRadius = 6;
const instantRadius = 4;

/** A lane's place: where it begins, how high one of its sub-rows is and what is free below that, in device pixels. */
interface Place {
  readonly top: number;
  readonly height: number;
  readonly gap: number;
  readonly ratio: number;
  /** The colour that its marks stand on, and a row of pixels of that with the lines of the axis. */
  readonly ground: number;
  readonly lined: Uint32Array;
}

/** A lane, where it begins, what it stands on, and down to where everything is painted. */
interface Next {
  readonly lane: Lane;
  readonly top: number;
  readonly ground: Uint32Array;
  readonly done: number;
}

/** paintLane paints from where that was left to the lower edge of the lane, which it returns. */
function paintLane(pixels: Pixels, cells: Uint8Array, scene: Scene, { lane, top, ground, done }: Next, over: Over): number {
  const { palette, ratio } = scene;
  const place = {
    top,
    height: ((rowHeight - 2 * rowGap) / lane.depth) * ratio,
    gap: lane.depth > 1 ? Math.round(ratio) : 0,
    ratio,
    ground: lane.agent === scene.agent ? palette.band : palette.surface,
    lined: ground,
  };
  const raster = { view: scene.view, width: pixels.width, least: Math.ceil(leastWidth * ratio), selected: scene.selected };
  const wide = rasterise(lane, raster, wordWidth * ratio, cells);
  let edge = done;
  for (let sub = 0; sub < lane.depth; sub++) {
    const whole = boxOf({ sub, x: 0, width: pixels.width }, place);
    pixels.repeat(ground, edge, whole.y);
    edge = whole.y + whole.height;
    paintRow(pixels, cells, { sub, whole }, palette, place, over);
  }
  if (lane.row === "model") {
    for (const point of points(lane, raster, pointRoom * ratio)) paintPoint(pixels, palette, point, place, over);
  }
  if (place.height < 12 * ratio) return edge;
  for (const mark of wide) {
    // Over a pattern there is nothing to read.
    if (mark.kind !== hatched) over.words.push({ box: boxOf(mark, place), text: scene.label(mark.event), inner: hollow(mark) });
  }
  return edge;
}

/**
 * paintRow draws a sub-row: its ground and colours once, and that row of pixels again down to its lower edge. Then come the patterns, which each
 * type has where there is room, so that types are not told by colour alone.
 */
function paintRow(pixels: Pixels, cells: Uint8Array, { sub, whole }: { sub: number; whole: Box }, palette: Palette, place: Place, over: Over): void {
  const { ratio } = place;
  const { width, data } = pixels;
  const middle = Math.round(whole.y + whole.height / 2);
  const half = Math.round(instantRadius * ratio);
  const visible = Math.max(whole.y, 0);
  if (visible >= Math.min(whole.y + whole.height, pixels.height)) return;
  const row = visible * width;
  data.set(place.lined, row);
  const shaped: number[] = [];
  eachRun(cells, sub * width, width, (x, end, value) => {
    const kind = kindIn(value);
    if (kind === instant) {
      shaped.push(x, end, value);
      return;
    }
    const colour = colourOf(value, palette);
    for (let at = row + x; at < row + end; at++) data[at] = colour;
    if (kind === hatched || end - x >= shapeWidth * ratio || selectedIn(value)) shaped.push(x, end, value);
  });
  pixels.copy(visible, whole.y + whole.height);
  for (let i = 0; i < shaped.length; i += 3) {
    const [x = 0, end = 0, value = 0] = [shaped[i], shaped[i + 1], shaped[i + 2]];
    const box = { x, y: whole.y, width: end - x, height: whole.height };
    if (kindIn(value) === instant) pixels.fill({ x, y: middle - half, width: end - x, height: 2 * half + 1 }, colourOf(value, palette));
    else paintPattern(pixels, palette, box, value, place, over);
  }
}

function paintPattern(pixels: Pixels, palette: Palette, box: Box, value: number, place: Place, over: Over): void {
  const { ratio } = place;
  const [kind, severity, colour] = [kindIn(value), severityIn(value), colourOf(value, palette)];
  if (selectedIn(value)) over.frames.push(box);
  if (kind === hatched && severity < 2) pixels.hatch(box, mix(colour, palette.surface, 0.5), ratio);
  if (box.width < shapeWidth * ratio) return;
  if (hollow({ kind, severity }) && box.height >= 6 * ratio) {
    const border = Math.round(2 * ratio);
    pixels.fill({ x: box.x + border, y: box.y + border, width: box.width - 2 * border, height: box.height - 2 * border }, mix(colour, palette.surface, 0.82));
  }
  if (severity === 3) pixels.notch(box, Math.min(Math.round(6 * ratio), box.height), place.ground);
}

function boxOf(mark: { sub: number; x: number; width: number } | Wide, place: Place): Box {
  const y = Math.round(place.top + mark.sub * place.height);
  const width = "width" in mark ? mark.width : mark.right - mark.x;
  return { x: mark.x, y, width, height: Math.round(place.top + (mark.sub + 1) * place.height) - y - place.gap };
}

/** hollow says whether the inside of a mark is pale. An error is one colour throughout. */
function hollow(mark: { kind: number; severity: number }): boolean {
  return mark.kind === outlined && mark.severity !== 3;
}

/** paintPoint draws a diamond with a free edge around it. */
function paintPoint(pixels: Pixels, palette: Palette, point: Point, place: Place, over: Over): void {
  const { ratio } = place;
  const x = point.x + Math.round(ratio);
  const y = Math.round(place.top + place.height / 2);
  const radius = Math.round(pointRadius * ratio);
  pixels.diamond(x, y, radius + Math.round(ratio), place.ground);
  pixels.diamond(x, y, radius, colourOf(1 + instant + (point.severity << 3), palette));
  if (point.selected) over.frames.push({ x: x - radius, y: y - radius, width: 2 * radius + 1, height: 2 * radius + 1 });
}

function colourOf(value: number, palette: Palette): number {
  const severity = severityIn(value);
  if (severity === 3) return palette.error;
  if (severity === 2) return palette.cancelled;
  return (severity === 1 ? palette.open[kindIn(value)] : palette.kinds[kindIn(value)]) ?? palette.cancelled;
}

function overlay(ctx: CanvasRenderingContext2D, scene: Scene, over: Over): void {
  const { palette, ratio } = scene;
  ctx.font = `11px ${palette.font}`;
  ctx.textBaseline = "middle";
  for (const { box, text, inner } of over.words) {
    ctx.fillStyle = inner ? palette.focus : palette.onMark;
    const left = Math.max(box.x / ratio, 0) + 6;
    const fitting = fit(ctx, text, Math.min((box.x + box.width) / ratio, scene.width) - 6 - left);
    if (fitting !== "") ctx.fillText(fitting, left, (box.y + box.height / 2) / ratio + 0.5);
  }
  ctx.strokeStyle = palette.focus;
  ctx.lineWidth = 2;
  for (const box of over.frames) ctx.strokeRect(box.x / ratio - 1, box.y / ratio - 1, box.width / ratio + 2, box.height / ratio + 2);
}

/** fit cuts a text to a width; what would be only a few letters is left out. */
function fit(ctx: CanvasRenderingContext2D, text: string, room: number): string {
  const width = ctx.measureText(text).width;
  if (width <= room) return text;
  const letters = Math.floor((text.length * room) / width) - 1;
  return letters < 4 ? "" : `${text.slice(0, letters)}…`;
}
