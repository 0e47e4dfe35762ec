import type { NestedCall, ToolContent } from "../api/schema";

/** A call that code made, as far as its end was recorded. */
export interface Nested {
  readonly call: NestedCall;
  /** How long it took in microseconds; null when that was not recorded. */
  readonly took: number | null;
  /** How it ended, in the word of the exchange; empty when its end was not recorded. */
  readonly outcome: string;
}

/** The calls that one execution of a call made, in the order of their starts. */
export interface Execution {
  readonly attempt: number;
  readonly calls: readonly Nested[];
}

/** executionsOf are the executions of a call that made calls, in the order in which they made the first one. */
export function executionsOf({ nested = [] }: Pick<ToolContent, "nested">): Execution[] {
  const out = new Map<number, Nested[]>();
  for (const call of nested) {
    const { startedAt, endedAt, audit, attempt } = call;
    const word = audit?.["outcome"];
    const one = {
      call,
      took: startedAt === undefined || endedAt === undefined ? null : endedAt - startedAt,
      outcome: typeof word === "string" && word !== "" ? word : audit === undefined && endedAt === undefined ? "" : "ended",
    };
    const calls = out.get(attempt);
    if (calls) calls.push(one);
    else out.set(attempt, [one]);
  }
  return [...out].map(([attempt, calls]) => ({ attempt, calls }));
}
