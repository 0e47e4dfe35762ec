import { Tail } from "../model/tail";
import { getExport } from "./client";

/** The forms in which the evidence can be had. */
export const exportFormats = ["ndjson", "otlp-json", "atif"] as const;
export type ExportFormat = (typeof exportFormats)[number];

const files: Readonly<Record<ExportFormat, { ending: string; mediaType: string }>> = {
  ndjson: { ending: "ndjson", mediaType: "application/x-ndjson" },
  "otlp-json": { ending: "otlp.json", mediaType: "application/json" },
  atif: { ending: "atif.json", mediaType: "application/json" },
};

/** What came of an export. */
export interface Exported {
  readonly format: ExportFormat;
  /** NDJSON: the last line says that everything is there, and its count agrees. Others: the transfer came to its proper end. */
  readonly complete: boolean;
  /** "verified" when the hash in the last line is that of the bytes before it; "unchecked" where there is none or the browser cannot tell. */
  readonly hash: "verified" | "wrong" | "unchecked";
  /** How many entries came; null for formats that do not say. */
  readonly records: number | null;
  readonly bytes: number;
  readonly blob: Blob;
  readonly fileName: string;
}

/** What is exported, and how. */
export interface ExportOrder {
  readonly namespace: string;
  readonly name: string;
  readonly format: ExportFormat;
}

/** Above this many bytes the hash is left to the reader of the file: hashing needs them in memory at once. */
const hashLimit = 256 * 1024 * 1024;

/** download reads a session's export and judges whether it is whole. A transfer that breaks off is no error, but incomplete. */
export async function download(order: ExportOrder, progress: (bytes: number) => void, signal: AbortSignal): Promise<Exported> {
  const { namespace, name, format } = order;
  const response = await getExport(namespace, name, format, signal);
  const tail = new Tail();
  const chunks: BlobPart[] = [];
  const reader = response.body?.getReader();
  let ended = false;
  try {
    for (let part = await reader?.read(); part !== undefined && !part.done; part = await reader?.read()) {
      tail.add(part.value);
      chunks.push(part.value as Uint8Array<ArrayBuffer>);
      progress(tail.total);
    }
    ended = true;
  } catch (err) {
    if (signal.aborted) throw err;
  }
  const blob = new Blob(chunks, { type: files[format].mediaType });
  const judged = format === "ndjson" ? await judge(blob, tail) : ({ complete: ended && tail.total > 0, hash: "unchecked", records: null } as const);
  const fileName = `${namespace}-${name}-trajectory${judged.complete ? "" : ".incomplete"}.${files[format].ending}`;
  return { format, ...judged, bytes: tail.total, blob, fileName };
}

/** judge compares what NDJSON says of itself at its end with what arrived. */
async function judge(blob: Blob, tail: Tail): Promise<Pick<Exported, "complete" | "hash" | "records">> {
  const end = tail.end();
  const hash = end === null ? "unchecked" : await check(blob, end.begins, end.sha256);
  return { complete: end !== null && hash !== "wrong", hash, records: end?.records ?? tail.records() };
}

async function check(blob: Blob, end: number, want: string): Promise<Exported["hash"]> {
  // Browsers offer hashing only to pages that came over TLS or from this machine.
  if (!globalThis.isSecureContext || blob.size > hashLimit) return "unchecked";
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await blob.slice(0, end).arrayBuffer()));
  const have = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return have === want ? "verified" : "wrong";
}

/** save hands a file to the browser. */
export function save(blob: Blob, fileName: string): void {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = fileName;
  anchor.click();
  // The browser has taken hold of the object by the time of the next task.
  setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
}
