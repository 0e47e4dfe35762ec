import { signal } from "@preact/signals";
import { options } from "preact";

/** Whether the page is being put on paper: then everything is unfolded, and nothing is left to a button. */
export const printing = signal(false);

// The browser takes the page as it is when the event is over, so that this one change cannot wait for the next task.
const now = (to: boolean) => () => {
  const later = options.debounceRendering;
  options.debounceRendering = (render) => render();
  printing.value = to;
  if (later) options.debounceRendering = later;
  else delete options.debounceRendering;
};

addEventListener("beforeprint", now(true));
addEventListener("afterprint", now(false));
