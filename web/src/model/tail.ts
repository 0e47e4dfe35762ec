/** The completion record is short; what stands before this many bytes is no part of it. */
const tailSize = 1024;

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
