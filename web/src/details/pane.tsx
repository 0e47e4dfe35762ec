import { useEffect } from "preact/hooks";
import { Lazy } from "../ui/lazy";
import { State } from "../ui/problem";
import type { Details, DetailsProps } from "./details";
import { Skeleton } from "./skeleton";

const details = new Lazy<typeof Details>(() => import("./details").then((part) => part.Details));

/** Pane shows the details of an event, or that none is selected. What shows details is fetched when the page has been drawn. */
export function Pane({ event, ...rest }: Omit<DetailsProps, "id"> & { event: string | null }) {
  useEffect(() => details.load(), []);
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
