import type { Entry } from "../api/schema";

/**
 * Approvals are what people were asked about an agent's calls, and what they decided. Their records are not listed: what they say
 * stands with the call that they are about.
 */
export class Approvals {
  /** The titles of a call's records, in their order. */
  private readonly titles = new Map<string, string[]>();
  private readonly calls = new Map<string, number>();
  private seen = 0;

  /** of is the last that was recorded about a call; empty when nobody was asked. */
  of(entries: readonly Entry[], list: readonly number[], callId: string | undefined): string {
    this.grow(entries, list);
    return (callId === undefined ? undefined : this.titles.get(callId)?.at(-1)) ?? "";
  }

  /** having adds the entries of calls about which something with a word was recorded. */
  having(entries: readonly Entry[], list: readonly number[], word: string, found: Set<number>): void {
    this.grow(entries, list);
    for (const [callId, titles] of this.titles) {
      const call = this.calls.get(callId);
      if (call !== undefined && titles.some((title) => title.toLowerCase().includes(word))) found.add(call);
    }
  }

  private grow(entries: readonly Entry[], list: readonly number[]): void {
    for (; this.seen < list.length; this.seen++) {
      const index = list[this.seen] as number;
      const { toolCallId: id, event, hidden, title } = entries[index] as Entry;
      if (id === undefined) continue;
      if (!hidden) this.calls.set(id, index);
      else if (event === "approval") {
        const titles = this.titles.get(id);
        if (titles) titles.push(title);
        else this.titles.set(id, [title]);
      }
    }
  }
}

const made = new WeakMap<readonly number[], Approvals>();

/** approvalsOf are those about the calls of a list of entries. A list that only grows keeps them. */
export function approvalsOf(list: readonly number[]): Approvals {
  let approvals = made.get(list);
  if (approvals === undefined) made.set(list, (approvals = new Approvals()));
  return approvals;
}

/** approvalLabel is what of a record's title a row has room for. */
export function approvalLabel(title: string): string {
  const what = title.split(/ by |: /)[0] ?? "";
  return what === "approval requested" ? "asked" : what.replace("approval ", "");
}
