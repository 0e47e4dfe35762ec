import { kinds } from "../model/kind";

/** The colours of the canvas, read from the style sheet so that there is one place for them. */
export interface Palette {
  readonly kinds: readonly string[];
  readonly error: string;
  readonly cancelled: string;
  readonly grid: string;
  readonly line: string;
  readonly band: string;
  readonly surface: string;
  readonly focus: string;
  readonly font: string;
  readonly onMark: string;
}

/** readPalette reads the colours that hold for an element now. */
export function readPalette(element: Element): Palette {
  const style = getComputedStyle(element);
  const value = (name: string) => style.getPropertyValue(name).trim();
  return {
    kinds: kinds.map((kind) => value(`--kind-${kind}`)),
    error: value("--bad"),
    cancelled: value("--muted"),
    grid: value("--grid"),
    line: value("--border"),
    band: value("--selected"),
    surface: value("--surface"),
    focus: value("--text"),
    font: style.fontFamily,
    onMark: value("--on-mark"),
  };
}
