import { kinds } from "../model/kind";
import { mix, pixelOf } from "./pixels";

/** The colours of the canvas, read from the style sheet so that there is one place for them. */
export interface Palette {
  /** Pixels: of each kind as it is, and lighter for what has not ended. */
  readonly kinds: readonly number[];
  readonly open: readonly number[];
  readonly error: number;
  readonly cancelled: number;
  readonly surface: number;
  readonly grid: number;
  readonly edge: number;
  readonly band: number;
  readonly idle: number;
  /** Colours of strokes, words and what is under them. */
  readonly ground: string;
  readonly line: string;
  readonly focus: string;
  readonly muted: string;
  readonly onMark: string;
  readonly font: string;
}

/** readPalette reads the colours that hold for an element now. */
export function readPalette(element: Element, ctx: CanvasRenderingContext2D): Palette {
  const style = getComputedStyle(element);
  const value = (name: string) => style.getPropertyValue(name).trim();
  const pixel = (name: string) => {
    ctx.fillStyle = value(name);
    return pixelOf(String(ctx.fillStyle));
  };
  const surface = pixel("--surface");
  const marks = kinds.map((kind) => pixel(`--kind-${kind}`));
  return {
    kinds: marks,
    open: marks.map((mark) => mix(mark, surface, 0.45)),
    error: pixel("--bad"),
    cancelled: pixel("--muted"),
    surface,
    grid: pixel("--grid"),
    edge: pixel("--border"),
    band: pixel("--selected"),
    idle: mix(pixel("--muted"), surface, 0.6),
    ground: value("--surface"),
    line: value("--border"),
    focus: value("--text"),
    muted: value("--muted"),
    onMark: value("--on-mark"),
    font: style.fontFamily,
  };
}

/** onRecolour runs a function when other colours hold. What it returns ends that. */
export function onRecolour(run: () => void): () => void {
  const queries = ["(prefers-color-scheme: dark)", "(forced-colors: active)"].map((query) => matchMedia(query));
  for (const query of queries) query.addEventListener("change", run);
  return () => {
    for (const query of queries) query.removeEventListener("change", run);
  };
}
