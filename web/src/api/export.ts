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

/** The completion record is short; what stands before this many bytes is no part of it. */
const tailSize = 1024;

/** Above this many bytes the hash is left to the reader of the file: hashing needs them in memory at once. */
const hashLimit = 256 * 1024 * 1024;

/** Tail watches a stream of lines go by and remembers what is needed to judge its end. */
export class Tail {
  private tail = new Uint8Array(0);
  private lines = 0;
  total = 0;

  add(chunk: Uint8Array): void {
    for (const byte of chunk) if (byte === 10) this.lines++;
    this.total += chunk.length;
    const joined = new Uint8Array(Math.min(this.tail.length, tailSize) + chunk.length);
    joined.set(this.tail);
    joined.set(chunk, this.tail.length);
    this.tail = joined.slice(-tailSize);
  }

  /** end is the completion record and where its line begins; null when the stream did not end with a true one. */
  end(): { records: number; sha256: string; begins: number } | null {
    const text = new TextDecoder().decode(this.tail);
    if (!text.endsWith("\n")) return null;
    const line = text.slice(text.lastIndexOf("\n", text.length - 2) + 1, -1);
    let record: { type?: unknown; records?: unknown; sha256?: unknown };
    try {
      record = JSON.parse(line) as typeof record;
    } catch {
      return null;
    }
    // The header and the completion record are no entries.
    if (record.type !== "complete" || record.records !== this.lines - 2 || typeof record.sha256 !== "string") return null;
    return { records: this.lines - 2, sha256: record.sha256, begins: this.total - new TextEncoder().encode(line).length - 1 };
  }

  /** records counts the entries that came whole. */
  records(): number {
    return Math.max(this.lines - 1, 0);
  }
}

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
