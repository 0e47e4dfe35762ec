import { effect, type ReadonlySignal } from "@preact/signals";
import type { View } from "./scale";

/** What of the lanes a canvas has room for, in CSS pixels. */
export interface Part {
  readonly width: number;
  readonly height: number;
  readonly scrollTop: number;
}

/** Until the page has laid the canvas out, there is nothing to draw on. */
export const unmeasured: Part = { width: 0, height: 0, scrollTop: 0 };

/**
 * redraw draws whenever the view, the part or a signal that draw reads has changed, without rendering anything anew. It
 * follows the view from the beginning on, also while the part is unmeasured. What it returns ends it.
 */
export function redraw(view: ReadonlySignal<View>, part: ReadonlySignal<Part>, draw: (view: View, part: Part) => void): () => void {
  return effect(() => {
    // Both are read before anything is decided: what an effect did not read, it does not follow.
    const shown = view.value;
    const room = part.value;
    if (room.width > 0) draw(shown, room);
  });
}
