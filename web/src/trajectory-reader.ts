import { signal } from "@preact/signals";
import { ApiError, getTrajectory } from "./api/client";
import { plural } from "./model/format";
import { join, type Loaded } from "./model/trajectory";

/** How many events the page holds; the export has those beyond. */
export const mostEntries = 500_000;

/** Reader reads one session's trajectory page by page, and later what was added since. What it has stays when it fails. */
export class Reader {
  readonly loaded = signal<Loaded | null>(null);
  readonly busy = signal(false);
  readonly error = signal<unknown>(null);
  /** When the last answer came, in microseconds. */
  readonly readAt = signal<number | null>(null);
  /** What a refresh brought, in words. */
  readonly news = signal("");
  /** Something about the reading itself that the reader of the page should know. */
  readonly remark = signal("");

  private abort: AbortController | null = null;

  constructor(
    private readonly namespace: string,
    private readonly name: string,
  ) {}

  /** refresh reads what is new, or everything the first time. One reading runs at a time. */
  async refresh(): Promise<void> {
    if (this.busy.peek()) return;
    const before = this.loaded.peek();
    this.abort = new AbortController();
    this.busy.value = true;
    this.error.value = null;
    this.news.value = "";
    try {
      await this.pages(this.abort.signal);
      this.announce(before);
    } catch (err) {
      if (!this.abort.signal.aborted) this.error.value = err;
    } finally {
      this.busy.value = false;
    }
  }

  /** stop ends a reading; what came until then is kept, and the next refresh goes on from there. */
  stop(): void {
    this.abort?.abort();
  }

  private async pages(stopped: AbortSignal): Promise<void> {
    let restarted = false;
    for (;;) {
      const before = this.loaded.peek();
      try {
        const page = await getTrajectory(this.namespace, this.name, before?.cursor, stopped);
        const joined = join(before, page);
        this.loaded.value = joined;
        this.readAt.value = Date.now() * 1000;
        if (!joined.partial) return;
        if (joined.entries.length >= mostEntries) {
          this.remark.value = `This session has ${plural(joined.counts.entries, "event")}. The page shows the first ${plural(joined.entries.length, "event")}; the export has all.`;
          return;
        }
      } catch (err) {
        const expired = err instanceof ApiError && err.status === 410;
        if (!expired || restarted) throw err;
        // The history that the cursor belongs to is no longer there: begin anew, once.
        restarted = true;
        this.loaded.value = null;
        this.remark.value = "The session’s history was replaced since it was read. It was read anew.";
      }
    }
  }

  private announce(before: Loaded | null): void {
    const now = this.loaded.peek();
    if (before === null || now === null) return;
    const added = now.entries.filter((entry) => !entry.hidden && !before.byId.has(entry.id)).length;
    this.news.value = added === 0 ? "No new events." : `${plural(added, "new event")}.`;
  }
}
