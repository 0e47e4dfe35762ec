import { signal } from "@preact/signals";
import { token } from "./api/auth";
import { ApiError, getTrajectory } from "./api/client";
import { plural } from "./model/format";
import { join, newest, type Loaded } from "./model/trajectory";
import { outdated } from "./resource";

/** How many events the page holds; the export has those beyond. */
export const mostEntries = 500_000;

/** How much is read before what is shown is made anew: as much again as is shown already costs little in all. */
const growth = 2;

/** How far a reading has come. */
export interface Progress {
  readonly entries: number;
  readonly of: number;
}

/** Reader reads one session's trajectory page by page, and later what was added since. What it has stays when it fails. */
export class Reader {
  /** What is shown: the first page at once, then what has come by the time that it is twice as much. */
  readonly loaded = signal<Loaded | null>(null);
  /** How far a reading of several pages has come; null when there is none. */
  readonly progress = signal<Progress | null>(null);
  readonly busy = signal(false);
  readonly error = signal<unknown>(null);
  /** When the last answer came, in microseconds. */
  readonly readAt = signal<number | null>(null);
  /** What a refresh brought, in words. */
  readonly news = signal("");
  /** Something about the reading itself that the reader of the page should know. */
  readonly remark = signal("");

  private abort: AbortController | null = null;
  /** What was read, which can be more than what is shown. */
  private read: Loaded | null = null;
  private added = 0;
  /** How much was read when it was shown last: what is shown shares its lists with what is read. */
  private seen = 0;

  constructor(
    private readonly namespace: string,
    private readonly name: string,
    /** How many events are held. */
    private readonly most = mostEntries,
  ) {}

  /** refresh reads what is new, or everything the first time. One reading runs at a time. */
  async refresh(): Promise<void> {
    if (this.busy.peek()) return;
    const first = this.read === null;
    const abort = new AbortController();
    this.abort = abort;
    this.busy.value = true;
    this.news.value = "";
    this.added = 0;
    const sent = token.peek();
    let again = false;
    try {
      await this.pages(abort.signal);
      if (!first) this.news.value = this.added === 0 ? "No new events." : `${plural(this.added, "new event")}.`;
      this.error.value = null;
    } catch (err) {
      again = !abort.signal.aborted && outdated(err, sent);
      if (!abort.signal.aborted && !again) this.error.value = err;
    } finally {
      this.show();
      this.progress.value = null;
      this.busy.value = false;
    }
    if (again) await this.refresh();
  }

  /** stop ends a reading; what came until then is kept, and the next refresh goes on from there. */
  stop(): void {
    this.abort?.abort();
  }

  private async pages(stopped: AbortSignal): Promise<void> {
    let restarted = false;
    for (;;) {
      try {
        const page = await getTrajectory(this.namespace, this.name, this.read?.cursor, stopped);
        this.take(join(this.read, page));
        if (this.read === null || !this.read.partial) return;
      } catch (err) {
        const expired = err instanceof ApiError && err.status === 410;
        if (!expired || restarted) throw err;
        // The history that the cursor belongs to is no longer there: begin anew, once.
        restarted = true;
        this.read = null;
        this.seen = 0;
        this.remark.value = "The session’s history was replaced since it was read. It was read anew.";
      }
    }
  }

  private take(joined: Loaded): void {
    // Letting go makes the lists anew, so that it is done for many at once.
    const room = joined.partial ? Math.ceil(this.most * 1.1) : this.most;
    this.read = joined.entries.length > room ? newest(joined, this.most) : joined;
    this.added += joined.added;
    this.readAt.value = Date.now() * 1000;
    if (this.read.dropped > 0) {
      this.remark.value = `This session has ${plural(joined.counts.entries, "event")}. The page shows the newest ${plural(this.read.entries.length, "event")}; the export has all.`;
    }
    if (joined.partial) this.progress.value = { entries: this.count(), of: joined.counts.entries };
    if (!joined.partial || this.count() >= growth * this.seen) this.show();
  }

  private show(): void {
    this.seen = this.count();
    this.loaded.value = this.read ?? this.loaded.peek();
  }

  private count(): number {
    return this.read === null ? 0 : this.read.entries.length + this.read.dropped;
  }
}
