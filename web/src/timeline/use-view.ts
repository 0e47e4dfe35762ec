import { useSignal, type ReadonlySignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { View } from "./scale";

/** How long a view rests before its address and what is read out follow, in milliseconds. */
const rest = 250;

interface Shown {
  readonly view: Signal<View>;
  /** The view after it has rested. */
  readonly settled: ReadonlySignal<View>;
}

/**
 * useView begins with the wanted part, or with everything; it goes on showing everything while more is read, until the view
 * was changed. Once it has come to rest, onRest is told what is shown: null for everything.
 */
export function useView(extent: View, wanted: View | null, onRest: (view: View | null) => void): Shown {
  const view = useSignal(wanted ?? extent);
  const settled = useSignal(view.peek());
  const last = useRef({ extent, wanted, told: wanted });
  const tell = useRef(onRest);
  tell.current = onRest;
  const before = last.current;
  if (before.extent !== extent) {
    const wasWhole = view.peek() === before.extent;
    before.extent = extent;
    if (wasWhole) view.value = settled.value = extent;
  }
  if (!same(before.wanted, wanted)) {
    before.wanted = wanted;
    // The address changed otherwise than by what is shown here: the browser's back button, or a link.
    if (!same(before.told, wanted)) view.value = settled.value = wanted ?? extent;
    before.told = wanted;
  }
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let moved = 0;
    let first = true;
    const rested = () => {
      timer = undefined;
      const left = moved + rest - performance.now();
      if (left > 0) {
        timer = setTimeout(rested, left);
        return;
      }
      const now = view.peek();
      settled.value = now;
      const told = now === last.current.extent ? null : now;
      if (same(told, last.current.told)) return;
      last.current.told = told;
      tell.current(told);
    };
    const end = view.subscribe(() => {
      if (first) {
        first = false;
        return;
      }
      // To set a timer anew with each step of a wheel costs more than to let it come and look.
      moved = performance.now();
      timer ??= setTimeout(rested, rest);
    });
    return () => {
      clearTimeout(timer);
      end();
    };
  }, []);
  return { view, settled };
}

/** same compares as far as the address can tell, which has whole microseconds. */
function same(a: View | null, b: View | null): boolean {
  if (a === null || b === null) return a === b;
  return Math.abs(a.from - b.from) < 2 && Math.abs(a.to - b.to) < 2;
}
