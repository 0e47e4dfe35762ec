/** Work that gives way now and then. */
export type Sliced<T> = Generator<void, T, void>;

/** How long work goes on before something else may happen, in milliseconds. */
const slice = 12;

/** inSlices does work in parts, between which the page can draw and answer. It rejects when it is no longer wanted. */
export async function inSlices<T>(work: Sliced<T>, signal?: AbortSignal): Promise<T> {
  let until = performance.now() + slice;
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
    if (performance.now() < until) continue;
    await new Promise((go) => setTimeout(go));
    signal?.throwIfAborted();
    until = performance.now() + slice;
  }
}

/** atOnce does work without giving way. */
export function atOnce<T>(work: Sliced<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}
