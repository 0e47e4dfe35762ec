import { kinds } from "../model/kind";
import { firstVisible, rasterise, type Lane } from "./lanes";
import type { Palette } from "./palette";
import { position, type Tick, type View } from "./scale";

// Heights in CSS pixels. They depend on nothing that is zoomed.
export const rowHeight = 20;
const rowGap = 2;
const agentGap = 8;
export const agentHeight = 2 * rowHeight + agentGap;

export interface Scene {
  readonly lanes: readonly Lane[];
  readonly view: View;
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

/** paint draws the visible part of all lanes. */
export function paint(ctx: CanvasRenderingContext2D, scene: Scene): void {
  ctx.setTransform(scene.ratio, 0, 0, scene.ratio, 0, 0);
  ctx.clearRect(0, 0, scene.width, scene.height);
  const first = Math.max(Math.floor(scene.scrollTop / agentHeight), 0) * 2;
  const last = Math.min((Math.floor((scene.scrollTop + scene.height) / agentHeight) + 1) * 2, scene.lanes.length);
  background(ctx, scene, first, last);
  for (let i = first; i < last; i++) {
    const lane = scene.lanes[i];
    if (lane) paintLane(ctx, scene, lane, topOf(i) - scene.scrollTop);
  }
}

function background(ctx: CanvasRenderingContext2D, scene: Scene, first: number, last: number): void {
  for (let i = first; i < last; i += 2) {
    const top = Math.floor(i / 2) * agentHeight - scene.scrollTop;
    if (scene.lanes[i]?.agent === scene.agent) {
      ctx.fillStyle = scene.palette.band;
      ctx.fillRect(0, top, scene.width, agentHeight);
    }
    ctx.fillStyle = scene.palette.line;
    ctx.fillRect(0, top + agentHeight - 1, scene.width, 1);
  }
  ctx.fillStyle = scene.palette.grid;
  for (const tick of scene.ticks) ctx.fillRect(Math.round(position(scene.view, tick.time) * scene.width), 0, 1, scene.height);
}

function paintLane(ctx: CanvasRenderingContext2D, scene: Scene, lane: Lane, top: number): void {
  const { palette, ratio } = scene;
  const height = (rowHeight - 2 * rowGap) / lane.depth;
  const raster = { view: scene.view, width: Math.round(scene.width * ratio), least: Math.ceil(2 * ratio), selected: scene.selected };
  for (const run of rasterise(lane, raster)) {
    const y = top + rowGap + run.sub * height;
    const x = run.x / ratio;
    const width = run.width / ratio;
    const gap = lane.depth > 1 ? 1 : 0;
    ctx.fillStyle = run.severity === 3 ? palette.error : run.severity === 2 ? palette.cancelled : (palette.kinds[run.kind] ?? palette.line);
    ctx.globalAlpha = run.severity === 1 ? 0.55 : 1;
    ctx.fillRect(x, y, width, height - gap);
    ctx.globalAlpha = 1;
    if (run.selected) {
      ctx.strokeStyle = palette.focus;
      ctx.lineWidth = 2;
      ctx.strokeRect(x - 1, y - 1, width + 2, height - gap + 2);
    }
  }
  decorate(ctx, scene, lane, top + rowGap, height);
}

const hatched = kinds.indexOf("reasoning");
const diamond = kinds.indexOf("input");
const outlined = kinds.indexOf("mcp");

/** The narrowest marks, in CSS pixels, that carry a pattern and a label. */
const patternWidth = 10;
const labelWidth = 56;

/** decorate adds shape and words to marks that have the room: type is never told by colour alone. */
function decorate(ctx: CanvasRenderingContext2D, scene: Scene, lane: Lane, top: number, height: number): void {
  const scale = scene.width / (scene.view.to - scene.view.from);
  const reached = new Float64Array(lane.depth).fill(-Infinity);
  for (let i = firstVisible(lane, scene.view.from); i < lane.starts.length; i++) {
    const start = lane.starts[i] ?? 0;
    if (start > scene.view.to) break;
    const sub = lane.subs[i] ?? 0;
    const x = (start - scene.view.from) * scale;
    const end = ((lane.ends[i] ?? 0) - scene.view.from) * scale;
    const y = top + sub * height;
    if (lane.kinds[i] === diamond) {
      if (x - (reached[sub] ?? 0) < 7 && lane.events[i] !== scene.selected) continue;
      reached[sub] = x;
      paintDiamond(ctx, scene, x, y + height / 2, lane.severities[i] === 3);
      continue;
    }
    if (end - Math.max(x, 0) < patternWidth || x < (reached[sub] ?? 0)) continue;
    reached[sub] = end;
    const box = { x: Math.max(x, -4), y, width: Math.min(end, scene.width + 4) - Math.max(x, -4), height: height - (lane.depth > 1 ? 1 : 0) };
    if (lane.kinds[i] === hatched) hatch(ctx, scene.palette, box);
    if (lane.kinds[i] === outlined) hollow(ctx, scene.palette, box);
    if (lane.severities[i] === 3) notch(ctx, scene.palette, box);
    if (box.width >= labelWidth && height >= 12 && lane.kinds[i] !== hatched) write(ctx, scene, box, scene.label(lane.events[i] ?? -1), lane.kinds[i] === outlined);
  }
}

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

function paintDiamond(ctx: CanvasRenderingContext2D, scene: Scene, x: number, y: number, failed: boolean): void {
  const r = 6;
  ctx.beginPath();
  ctx.moveTo(x + 1, y - r);
  ctx.lineTo(x + 1 + r, y);
  ctx.lineTo(x + 1, y + r);
  ctx.lineTo(x + 1 - r, y);
  ctx.closePath();
  ctx.fillStyle = failed ? scene.palette.error : (scene.palette.kinds[diamond] ?? "");
  ctx.fill();
  ctx.strokeStyle = scene.palette.surface;
  ctx.lineWidth = 1;
  ctx.stroke();
}

function hatch(ctx: CanvasRenderingContext2D, palette: Palette, box: Box): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.x, box.y, box.width, box.height);
  ctx.clip();
  ctx.strokeStyle = palette.surface;
  ctx.globalAlpha = 0.55;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  for (let x = box.x - box.height; x < box.x + box.width; x += 6) {
    ctx.moveTo(x, box.y + box.height);
    ctx.lineTo(x + box.height, box.y);
  }
  ctx.stroke();
  ctx.restore();
}

function hollow(ctx: CanvasRenderingContext2D, palette: Palette, box: Box): void {
  if (box.height < 6) return;
  ctx.fillStyle = palette.surface;
  ctx.globalAlpha = 0.82;
  ctx.fillRect(box.x + 2, box.y + 2, box.width - 4, box.height - 4);
  ctx.globalAlpha = 1;
}

/** notch cuts a corner off, so that an error is told by shape as well. */
function notch(ctx: CanvasRenderingContext2D, palette: Palette, box: Box): void {
  const size = Math.min(6, box.height);
  ctx.fillStyle = palette.surface;
  ctx.beginPath();
  ctx.moveTo(box.x + box.width - size, box.y);
  ctx.lineTo(box.x + box.width, box.y);
  ctx.lineTo(box.x + box.width, box.y + size);
  ctx.closePath();
  ctx.fill();
}

function write(ctx: CanvasRenderingContext2D, scene: Scene, box: Box, text: string, hollowed: boolean): void {
  ctx.font = `11px ${scene.palette.font}`;
  ctx.textBaseline = "middle";
  ctx.fillStyle = hollowed ? scene.palette.focus : scene.palette.onMark;
  const left = Math.max(box.x, 0) + 6;
  const room = box.x + box.width - 6 - left;
  const fitting = fit(ctx, text, room);
  if (fitting !== "") ctx.fillText(fitting, left, box.y + box.height / 2 + 0.5);
}

/** fit cuts a text to a width; what would be only a few letters is left out. */
function fit(ctx: CanvasRenderingContext2D, text: string, room: number): string {
  const width = ctx.measureText(text).width;
  if (width <= room) return text;
  const letters = Math.floor((text.length * room) / width) - 1;
  return letters < 4 ? "" : `${text.slice(0, letters)}…`;
}
