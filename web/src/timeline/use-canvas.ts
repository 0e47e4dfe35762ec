import type { ReadonlySignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { onRecolour, readPalette, type Palette } from "./palette";
import { redraw, type Part } from "./redraw";
import type { View } from "./scale";

/** What a canvas is painted with. Sizes are CSS pixels; ratio is device pixels to one of them. */
export interface Sheet {
  readonly view: View;
  readonly part: Part;
  readonly height: number;
  readonly ratio: number;
  readonly palette: Palette;
}

/** Everything is covered with each picture, and most of it is put there as pixels. */
const canvasKind: CanvasRenderingContext2DSettings = { alpha: false, willReadFrequently: true };

interface Options {
  readonly view: ReadonlySignal<View>;
  readonly part: ReadonlySignal<Part>;
  /** How high the canvas is. */
  readonly height: (part: Part) => number;
  readonly paint: (ctx: CanvasRenderingContext2D, sheet: Sheet) => void;
  /** What else the picture is made of, other than signals that paint reads. */
  readonly of: readonly unknown[];
}

/** useCanvas keeps the canvas that has the returned reference painted. A changed view is painted and nothing is rendered. */
export function useCanvas(options: Options): { current: HTMLCanvasElement | null } {
  const canvas = useRef<HTMLCanvasElement>(null);
  const palette = useRef<Palette | null>(null);
  const latest = useRef(options);
  latest.current = options;

  const draw = (view: View, part: Part) => {
    const element = canvas.current;
    const ctx = element?.getContext("2d", canvasKind);
    if (!element || !ctx) return;
    const height = latest.current.height(part);
    const ratio = devicePixelRatio;
    const size = { width: Math.round(part.width * ratio), height: Math.round(height * ratio) };
    // To set a size, also the same one, throws the picture away.
    if (element.width !== size.width) element.width = size.width;
    if (element.height !== size.height) element.height = size.height;
    const styled = `${height}px`;
    if (element.style.height !== styled) element.style.height = styled;
    palette.current ??= readPalette(element, ctx);
    latest.current.paint(ctx, { view, part, height, ratio, palette: palette.current });
  };
  const again = () => {
    const part = options.part.peek();
    if (part.width > 0) draw(options.view.peek(), part);
  };
  useLayoutEffect(again, options.of);
  useEffect(() => redraw(options.view, options.part, draw), []);
  useEffect(
    () =>
      onRecolour(() => {
        palette.current = null;
        again();
      }),
    [],
  );
  return canvas;
}
