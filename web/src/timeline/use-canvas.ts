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

/** Everything is covered with each picture, and most of it is put there as pixels, all of it at once: it need not wait for the rest of the page. */
const canvasKind: CanvasRenderingContext2DSettings = { alpha: false, willReadFrequently: true, desynchronized: true };

interface Options {
  readonly view: ReadonlySignal<View>;
  /** The view when it has come to rest; without it the picture is always sharp. */
  readonly settled?: ReadonlySignal<View>;
  readonly part: ReadonlySignal<Part>;
  /** How high the canvas is. */
  readonly height: (part: Part) => number;
  readonly paint: (ctx: CanvasRenderingContext2D, sheet: Sheet) => void;
  /** What else the picture is made of, other than signals that paint reads. */
  readonly of: readonly unknown[];
}

/** To paint a sharp picture may take so long, in milliseconds: to bring it to the screen takes about as long again. */
const slow = 2;

/**
 * ratioFor is how many pixels a picture has to a CSS pixel: as many as the screen, but while the view moves, where a sharp
 * picture takes too long, one. It has a quarter of the pixels where the screen has two.
 */
export function ratioFor(device: number, moving: boolean, took: number): number {
  return moving && took > slow ? Math.min(device, 1) : device;
}

/** useCanvas keeps the canvas that has the returned reference painted. A changed view is painted and nothing is rendered. */
export function useCanvas(options: Options): { current: HTMLCanvasElement | null } {
  const canvas = useRef<HTMLCanvasElement>(null);
  const palette = useRef<Palette | null>(null);
  const latest = useRef(options);
  latest.current = options;
  const drawn = useRef({ ratio: 0, took: 0 });

  const draw = (view: View, part: Part) => {
    const element = canvas.current;
    const ctx = element?.getContext("2d", canvasKind);
    if (!element || !ctx) return;
    const height = latest.current.height(part);
    const begun = performance.now();
    const { settled } = latest.current;
    const ratio = ratioFor(devicePixelRatio, settled !== undefined && settled.peek() !== view, drawn.current.took);
    const size = { width: Math.round(part.width * ratio), height: Math.round(height * ratio) };
    // To set a size, also the same one, throws the picture away.
    if (element.width !== size.width) element.width = size.width;
    if (element.height !== size.height) element.height = size.height;
    const styled = `${height}px`;
    if (element.style.height !== styled) element.style.height = styled;
    palette.current ??= readPalette(element, ctx);
    latest.current.paint(ctx, { view, part, height, ratio, palette: palette.current });
    drawn.current = { ratio, took: ratio < devicePixelRatio ? drawn.current.took : performance.now() - begun };
  };
  const again = () => {
    const part = options.part.peek();
    if (part.width > 0) draw(options.view.peek(), part);
  };
  useLayoutEffect(again, options.of);
  useEffect(() => redraw(options.view, options.part, draw), []);
  useEffect(
    () =>
      options.settled?.subscribe((view) => {
        if (view === options.view.peek() && drawn.current.ratio < devicePixelRatio) again();
      }),
    [],
  );
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
