import { useEffect } from "preact/hooks";
import { Lazy } from "../ui/lazy";
import { State } from "../ui/problem";
import type { Details, DetailsProps } from "./details";
import { Skeleton } from "./skeleton";

const details = new Lazy<typeof Details>(() => import("./details").then((part) => part.Details));

/**
 * Pane shows the details of an event, or that none is selected. What shows details is fetched for the first event that is
 * selected, and without one when all was read and there is nothing else to do: it takes nothing from what comes first.
 */
export function Pane({ event, ...rest }: Omit<DetailsProps, "id"> & { event: string | null }) {
  const empty = event === null;
  const reading = rest.loaded.partial;
  useEffect(() => {
    if (!empty) details.load();
    else if (!reading) return whenIdle(() => details.load());
    return undefined;
  }, [empty, reading]);
  const Shown = details.value;
  if (event === null) {
    return (
      <div class="state">
        <p class="muted">Select an event in the timeline or in the list.</p>
      </div>
    );
  }
  if (Shown) return <Shown {...rest} id={event} />;
  if (!details.failed) return <Skeleton />;
  return (
    <State title="This part of the page could not be fetched">
      <p>The server cannot be reached, or has a newer page by now.</p>
      <button type="button" onClick={() => location.reload()}>
        Load the page anew
      </button>
    </State>
  );
}

/** whenIdle runs a function when nothing else is to be done. What it returns takes that back. */
function whenIdle(run: () => void): () => void {
  if (!("requestIdleCallback" in globalThis)) {
    const timer = setTimeout(run, 1000);
    return () => clearTimeout(timer);
  }
  const asked = requestIdleCallback(run);
  return () => cancelIdleCallback(asked);
}
