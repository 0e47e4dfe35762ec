import { useEffect, useRef } from "preact/hooks";
import { clamp, pan, wheelFactor, zoom, type View } from "./scale";

/** For how long after scrolling a wheel with Ctrl is taken for the rest of it, in milliseconds. */
const inertia = 150;

type Change = (view: View, extent: View) => View;
interface Element {
  readonly current: HTMLElement | null;
}

/** useWheel zooms with Ctrl (or a pinch) anywhere in the pane and pans sideways; a plain wheel scrolls as it does everywhere. */
export function useWheel(root: Element, tracks: Element, change: (by: Change) => void): void {
  const latest = useRef(change);
  latest.current = change;
  useEffect(() => {
    let scrolled = -Infinity;
    const onWheel = (event: WheelEvent) => {
      const box = tracks.current?.getBoundingClientRect();
      if (!box || box.width === 0) return;
      if (event.ctrlKey || event.metaKey) {
        // The browser would zoom the whole page.
        event.preventDefault();
        if (event.timeStamp - scrolled < inertia) return;
        const at = clamp((event.clientX - box.left) / box.width, 0, 1);
        latest.current((view, extent) => zoom(view, extent, at, wheelFactor(event.deltaY, event.deltaMode)));
        return;
      }
      scrolled = event.timeStamp;
      const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
      if (sideways === 0 || Math.abs(sideways) < Math.abs(event.deltaY) * (event.shiftKey ? 0 : 1)) return;
      event.preventDefault();
      latest.current((view, extent) => pan(view, extent, sideways / box.width));
    };
    const element = root.current;
    element?.addEventListener("wheel", onWheel, { passive: false });
    return () => element?.removeEventListener("wheel", onWheel);
  }, []);
}
