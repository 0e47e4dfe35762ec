import { token } from "../api/auth";
import { getDetail } from "../api/client";
import type { Detail, Entry } from "../api/schema";
import { Lru } from "../model/lru";

/** Details of the last events looked at, in memory only: fifty, and no more than 64 MiB as they were served. */
const cache = new Lru<Detail>(50, 64 * 1024 * 1024);

// Another token can have other rights.
token.subscribe(() => cache.clear());

/** Which event of which session, and how much of it was there: a later reading can bring more of an entry. */
export interface Wanted {
  readonly namespace: string;
  readonly name: string;
  readonly id: string;
  readonly version: string;
}

export function keyOf({ namespace, name, id, version }: Wanted): string {
  return `${namespace}/${name}/${id}\n${version}`;
}

/** versionOf changes when a later reading brought more of an entry. */
export function versionOf(entry: Entry | undefined): string {
  return entry === undefined ? "" : `${entry.lastSequence ?? entry.sequence}/${entry.status ?? ""}/${entry.answerId ?? ""}`;
}

/** readDetail gives what is known of an event, or asks for it. */
export async function readDetail(wanted: Wanted, signal: AbortSignal): Promise<Detail> {
  const key = keyOf(wanted);
  const have = cache.get(key);
  if (have) return have;
  const detail = await getDetail(wanted.namespace, wanted.name, wanted.id, signal);
  cache.set(key, detail, detail.input?.inputSize ?? detail.entry.bytes ?? 0);
  return detail;
}
