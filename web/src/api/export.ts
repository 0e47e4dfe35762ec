import { Tail } from "../model/tail";
import { getExport } from "./client";

/** What came of an export. */
export interface Exported {
  /** The last line says that everything is there, and its count agrees. */
  readonly complete: boolean;
  /** "verified" when the hash in the last line is that of the bytes before it; "unchecked" where the browser cannot tell. */
  readonly hash: "verified" | "wrong" | "unchecked";
  readonly records: number;
  readonly bytes: number;
  readonly blob: Blob;
  readonly fileName: string;
}

/** Above this many bytes the hash is left to the reader of the file: hashing needs them in memory at once. */
const hashLimit = 256 * 1024 * 1024;

/** download reads a session's export and judges whether it is whole. A transfer that breaks off is no error, but incomplete. */
export async function download(namespace: string, name: string, progress: (bytes: number) => void, signal: AbortSignal): Promise<Exported> {
  const response = await getExport(namespace, name, signal);
  const tail = new Tail();
  const chunks: BlobPart[] = [];
  const reader = response.body?.getReader();
  try {
    for (let part = await reader?.read(); part !== undefined && !part.done; part = await reader?.read()) {
      tail.add(part.value);
      chunks.push(part.value as Uint8Array<ArrayBuffer>);
      progress(tail.total);
    }
  } catch (err) {
    if (signal.aborted) throw err;
  }
  const blob = new Blob(chunks, { type: "application/x-ndjson" });
  const end = tail.end();
  const hash = end === null ? "unchecked" : await check(blob, end.begins, end.sha256);
  const complete = end !== null && hash !== "wrong";
  return {
    complete,
    hash,
    records: end?.records ?? tail.records(),
    bytes: tail.total,
    blob,
    fileName: `${namespace}-${name}-trajectory${complete ? "" : ".incomplete"}.ndjson`,
  };
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
