import { kinds } from "../model/kind";
import { rasterise, type Lane, type Point, type Run, type Wide } from "./lanes";
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

  /** paint draws the visible part of all lanes: marks as pixels, the ground behind them, then frames and words. */
  paint(ctx: CanvasRenderingContext2D, scene: Scene): void {
    const width = Math.max(Math.round(scene.width * scene.ratio), 1);
    const height = Math.max(Math.round(scene.height * scene.ratio), 1);
    if (this.pixels.width !== width || this.pixels.height !== height) this.pixels = new Pixels(width, height);
    else this.pixels.clear();
    const first = Math.max(Math.floor(scene.scrollTop / agentHeight), 0) * 2;
    const last = Math.min((Math.floor((scene.scrollTop + scene.height) / agentHeight) + 1) * 2, scene.lanes.length);
    const over: Over = { frames: [], words: [] };
    for (let i = first; i < last; i++) {
      const lane = scene.lanes[i];
      if (lane) paintLane(this.pixels, scene, lane, (topOf(i) + rowGap - scene.scrollTop) * scene.ratio, over);
    }
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.putImageData(this.pixels.image(), 0, 0);
    ctx.setTransform(scene.ratio, 0, 0, scene.ratio, 0, 0);
    ground(ctx, scene, first, last);
    overlay(ctx, scene, over);
  }
}

/** What is drawn over the pixels, in device pixels. */
interface Over {
  readonly frames: Box[];
  readonly words: { box: Box; text: string; inner: boolean }[];
}

/** ground draws behind what is there already. */
function ground(ctx: CanvasRenderingContext2D, scene: Scene, first: number, last: number): void {
  ctx.globalCompositeOperation = "destination-over";
  ctx.fillStyle = scene.palette.grid;
  for (const tick of scene.ticks) ctx.fillRect(Math.round(position(scene.view, tick.time) * scene.width), 0, 1, scene.height);
  for (let i = first; i < last; i += 2) {
    const top = Math.floor(i / 2) * agentHeight - scene.scrollTop;
    ctx.fillStyle = scene.palette.line;
    ctx.fillRect(0, top + agentHeight - 1, scene.width, 1);
    if (scene.lanes[i]?.agent !== scene.agent) continue;
    ctx.fillStyle = scene.palette.band;
    ctx.fillRect(0, top, scene.width, agentHeight);
  }
  ctx.globalCompositeOperation = "source-over";
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
}

function paintLane(pixels: Pixels, scene: Scene, lane: Lane, top: number, over: Over): void {
  const { palette, ratio } = scene;
  const place = { top, height: ((rowHeight - 2 * rowGap) / lane.depth) * ratio, gap: lane.depth > 1 ? Math.round(ratio) : 0, ratio };
  const raster = { view: scene.view, width: pixels.width, least: Math.ceil(leastWidth * ratio), selected: scene.selected };
  const { runs, points, wide } = rasterise(lane, raster, { points: pointRoom * ratio, words: wordWidth * ratio });
  for (const run of runs) paintRun(pixels, palette, run, place, over);
  for (const point of points) paintPoint(pixels, palette, point, place, over);
  if (place.height < 12 * ratio) return;
  for (const mark of wide) {
    // Over a pattern there is nothing to read.
    if (mark.kind !== hatched) over.words.push({ box: boxOf(mark, place), text: scene.label(mark.event), inner: hollow(mark) });
  }
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

/** paintRun draws a stretch. Each type has a pattern of its own where there is room, so that it is not told by colour alone. */
function paintRun(pixels: Pixels, palette: Palette, run: Run, place: Place, over: Over): void {
  const { ratio } = place;
  const box = boxOf(run, place);
  const colour = colourOf(run, palette);
  if (run.kind === instant) {
    const half = Math.round(instantRadius * ratio);
    pixels.fill({ x: box.x, y: Math.round(box.y + box.height / 2) - half, width: box.width, height: 2 * half + 1 }, colour);
    return;
  }
  pixels.fill(box, colour);
  if (run.selected) over.frames.push(box);
  if (run.kind === hatched && run.severity < 2) pixels.hatch(box, mix(colour, palette.surface, 0.5), ratio);
  if (run.width < shapeWidth * ratio) return;
  if (hollow(run) && box.height >= 6 * ratio) {
    const border = Math.round(2 * ratio);
    pixels.fill({ x: box.x + border, y: box.y + border, width: box.width - 2 * border, height: box.height - 2 * border }, mix(colour, palette.surface, 0.82));
  }
  if (run.severity === 3) pixels.notch(box, Math.min(Math.round(6 * ratio), box.height));
}

/** paintPoint draws a diamond with a free edge around it. */
function paintPoint(pixels: Pixels, palette: Palette, point: Point, place: Place, over: Over): void {
  const { ratio } = place;
  const x = point.x + Math.round(ratio);
  const y = Math.round(place.top + place.height / 2);
  const radius = Math.round(pointRadius * ratio);
  pixels.diamond(x, y, radius + Math.round(ratio), 0);
  pixels.diamond(x, y, radius, colourOf({ ...point, kind: instant }, palette));
  if (point.selected) over.frames.push({ x: x - radius, y: y - radius, width: 2 * radius + 1, height: 2 * radius + 1 });
}

function colourOf({ kind, severity }: { kind: number; severity: number }, palette: Palette): number {
  if (severity === 3) return palette.error;
  if (severity === 2) return palette.cancelled;
  return (severity === 1 ? palette.open[kind] : palette.kinds[kind]) ?? palette.cancelled;
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
