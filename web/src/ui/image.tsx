import { createContext } from "preact";
import { useContext, useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, getImage } from "../api/client";
import type { Block } from "../api/schema";
import { bytes, shortDigest } from "../model/format";
import { useResource } from "../resource";
import { Problem } from "./problem";

/** Whose record is shown: images are found by where they stand in it. */
export interface Place {
  readonly namespace: string;
  readonly name: string;
  readonly id: string;
}

export const Shown = createContext<Place | null>(null);

/** Image names an image that stands apart, and shows it to who asks for it. */
export function Image({ block, message, at }: { block: Block; message: number | undefined; at: number }) {
  const place = useContext(Shown);
  const [asked, setAsked] = useState(false);
  return (
    <div class="image">
      <p>
        Image, {block.mediaType ?? "of unknown type"}
        {block.ref && (
          <>
            , {bytes(block.ref.size)}, <code title={block.ref.digest}>{shortDigest(block.ref.digest)}</code>
          </>
        )}{" "}
        {block.ref && place && !asked && (
          <button type="button" class="link" onClick={() => setAsked(true)}>
            Show the image
          </button>
        )}
      </p>
      {asked && place && <Picture place={place} message={message} at={at} />}
    </div>
  );
}

function Picture({ place, message, at }: { place: Place; message: number | undefined; at: number }) {
  const { namespace, name, id } = place;
  const { value, error, reload } = useResource(JSON.stringify([place, message, at]), (signal) => getImage(namespace, name, { id, message, block: at }, signal));
  const url = useMemo(() => value && URL.createObjectURL(value), [value]);
  useEffect(() => () => URL.revokeObjectURL(url ?? ""), [url]);
  // What is wrong with the image itself is not the fault of the event.
  if (error instanceof ApiError && error.status === 404) return <p class="unavailable">{error.message}</p>;
  if (error !== null) return <Problem error={error} subject="event" namespace={namespace} onRetry={reload} />;
  return url === null ? <p class="muted">Reading the image…</p> : <img src={url} alt={`Image ${at + 1} of the message`} />;
}
