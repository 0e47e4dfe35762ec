import { useMemo, useState } from "preact/hooks";
import { getRaw } from "../api/client";
import { save } from "../api/export";
import { indent } from "../api/json";
import { bytes } from "../model/format";
import { useResource } from "../resource";
import { Loading, Problem } from "../ui/problem";
import { Text } from "../ui/text";

interface Props {
  namespace: string;
  name: string;
  id: string;
  /** Changes when the entry does. */
  version: string;
  what: string;
}

/** Raw shows the stored JSON of an event: the bytes as they were served, or with line breaks between its tokens. */
export function Raw({ namespace, name, id, version, what }: Props) {
  const raw = useResource(`${id}\n${version}`, (signal) => getRaw(namespace, name, id, signal));
  const [lines, setLines] = useState(true);
  const text = raw.value;
  const shown = useMemo(() => (text === null ? "" : lines ? indent(text) : text), [text, lines]);
  return (
    <section class="block">
      {raw.busy && <Loading what="Reading the stored JSON" />}
      {raw.error !== null && <Problem error={raw.error} subject="event" namespace={namespace} onRetry={raw.reload} />}
      {text !== null && (
        <>
          <div class="raw-head">
            <span class="muted">
              {what}, {bytes(new TextEncoder().encode(text).length)}. Credential fields are redacted.
            </span>
            <label class="check">
              <input type="checkbox" checked={lines} onChange={(event) => setLines(event.currentTarget.checked)} /> Line breaks
            </label>
            {"clipboard" in navigator && (
              <button type="button" onClick={() => void navigator.clipboard.writeText(text)}>
                Copy
              </button>
            )}
            <button type="button" onClick={() => save(new Blob([text], { type: "application/json" }), `${namespace}-${name}-event.json`)}>
              Download
            </button>
          </div>
          <Text text={shown} mono />
        </>
      )}
    </section>
  );
}
