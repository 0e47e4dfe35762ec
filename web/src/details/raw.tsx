import { useEffect, useState } from "preact/hooks";
import { getRaw } from "../api/client";
import { save } from "../api/export";
import { bytes } from "../model/format";
import { Indenter } from "../model/indent";
import { parseSlices } from "../model/json-slices";
import { pieces } from "../model/pieces";
import { inSlices } from "../model/slices";
import { useResource } from "../resource";
import { Json } from "../ui/json";
import { printing } from "../ui/printing";
import { Problem } from "../ui/problem";
import { Pieces } from "../ui/text";
import { Skeleton } from "./skeleton";

interface Props {
  namespace: string;
  name: string;
  id: string;
  /** Changes when the entry does. */
  version: string;
  what: string;
}

const views = ["lines", "served", "tree"] as const;
type View = (typeof views)[number];
const viewLabels: Readonly<Record<View, string>> = { lines: "Line breaks", served: "As served", tree: "Tree" };

/** Raw shows the stored JSON of an event: the bytes as they were served, with line breaks between its tokens, or level by level. */
export function Raw({ namespace, name, id, version, what }: Props) {
  const raw = useResource(`${id}\n${version}`, (signal) => getRaw(namespace, name, id, signal));
  const [view, setView] = useState<View>("lines");
  const blob = raw.value;
  return (
    <section class="block">
      {raw.busy && blob === null && <Skeleton />}
      {raw.error !== null && <Problem error={raw.error} subject="event" namespace={namespace} onRetry={raw.reload} />}
      {blob !== null && (
        <>
          <div class="raw-head">
            <span class="muted">
              {what}, {bytes(blob.size)}. Credential fields are redacted.
            </span>
            <span class="button-row" role="group" aria-label="How it is shown">
              {views.map((item) => (
                <button key={item} type="button" aria-pressed={view === item} onClick={() => setView(item)}>
                  {viewLabels[item]}
                </button>
              ))}
            </span>
            <span class="button-row">
              <Copy blob={blob} />
              <button type="button" onClick={() => save(blob.slice(0, blob.size, "application/json"), `${namespace}-${name}-${id}.json`)}>
                Download
              </button>
            </span>
          </div>
          {view === "tree" ? <Tree blob={blob} /> : <Portions key={view} blob={blob} lines={view === "lines"} />}
        </>
      )}
    </section>
  );
}

function Copy({ blob }: { blob: Blob }) {
  const [copied, setCopied] = useState("");
  // Browsers offer the clipboard only to pages that came over TLS or from this machine.
  if (!("clipboard" in navigator)) return null;
  const copy = () =>
    void blob
      .text()
      .then((text) => navigator.clipboard.writeText(text))
      .then(
        () => setCopied("Copied"),
        () => setCopied("Not copied: the browser refused"),
      );
  return (
    <>
      <span class="muted" role="status">
        {copied}
      </span>
      <button type="button" onClick={copy} onBlur={() => setCopied("")}>
        Copy
      </button>
    </>
  );
}

/** How many bytes are put on the page at a time. */
const portion = 250_000;

/** Portions reads a text as far as somebody wants to. */
function Portions({ blob, lines }: { blob: Blob; lines: boolean }) {
  const [read, setRead] = useState<{ pieces: readonly string[]; bytes: number }>({ pieces: [], bytes: 0 });
  const [reader] = useState(() => ({ decoder: new TextDecoder("utf-8", { ignoreBOM: true }), indenter: lines ? new Indenter() : null, busy: false }));
  const next = async () => {
    if (reader.busy) return;
    reader.busy = true;
    const end = Math.min(read.bytes + portion, blob.size);
    const chunk = await blob.slice(read.bytes, end).arrayBuffer();
    const text = reader.decoder.decode(chunk, { stream: end < blob.size });
    reader.busy = false;
    setRead((before) => ({ pieces: [...before.pieces, ...pieces(reader.indenter?.feed(text) ?? text)], bytes: end }));
  };
  useEffect(() => void next(), []);
  const left = blob.size - read.bytes;
  return (
    <div class="text mono">
      <Pieces pieces={read.pieces} />
      {left > 0 && read.bytes > 0 && (
        <p class="text-more">
          {printing.value ? (
            <>{bytes(left)} more are in the download.</>
          ) : (
            <button type="button" onClick={() => void next()}>
              Show the next {bytes(Math.min(portion, left))} of {bytes(left)}
            </button>
          )}
        </p>
      )}
    </div>
  );
}

/** Tree shows a text level by level, once it was parsed. */
function Tree({ blob }: { blob: Blob }) {
  const [parsed, setParsed] = useState<{ value: unknown } | { error: string } | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    blob
      .text()
      .then((text) => inSlices(parseSlices(text), abort.signal))
      .then(
        (value) => !abort.signal.aborted && setParsed({ value }),
        (err: unknown) => !abort.signal.aborted && setParsed({ error: err instanceof Error ? err.message : String(err) }),
      );
    return () => abort.abort();
  }, [blob]);
  if (parsed === null) return <Skeleton />;
  if ("error" in parsed) return <p class="unavailable">This is not JSON: {parsed.error}</p>;
  return <Json value={parsed.value} />;
}
