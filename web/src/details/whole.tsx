import { useState } from "preact/hooks";
import { getText } from "../api/client";
import { bytes } from "../model/format";
import { useResource } from "../resource";
import { Notices } from "../ui/notices";
import { Problem } from "../ui/problem";
import { Text } from "../ui/text";

interface Props {
  namespace: string;
  name: string;
  id: string;
  /** In bytes. */
  size: number;
}

/** Whole offers all of the text of a result that was cut. */
export function Whole({ size, ...which }: Props) {
  const [asked, setAsked] = useState(false);
  return (
    <>
      <p class="muted">
        All of its text, {bytes(size)}, was kept apart.{" "}
        {!asked && (
          <button type="button" class="link" onClick={() => setAsked(true)}>
            Show all of it
          </button>
        )}
      </p>
      {asked && <All {...which} />}
    </>
  );
}

function All({ namespace, name, id }: Omit<Props, "size">) {
  const { value, error, reload } = useResource(id, (signal) => getText(namespace, name, id, signal));
  if (error !== null) return <Problem error={error} subject="event" namespace={namespace} onRetry={reload} />;
  if (value === null) return <p class="muted">Reading the text…</p>;
  return (
    <>
      <Notices notices={value.notices.filter((notice) => notice.message !== value.unavailable)} open />
      {value.unavailable ? <p class="unavailable">{value.unavailable}</p> : <Text text={value.text} mono plain />}
    </>
  );
}
