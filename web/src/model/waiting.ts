import type { Run } from "../api/schema";
import type { Loaded } from "./trajectory";

const reasons: Readonly<Record<string, string>> = { AwaitingApproval: "a person’s decision", ToolCall: "the runs that it delegated to" };

/** waitsFor is what a run that goes on waits for without a worker; empty when it does not, as far as was read. */
export function waitsFor({ entries, byAgent }: Pick<Loaded, "entries" | "byAgent">, run: Pick<Run, "uid" | "agent">): string {
  const own = byAgent.get(run.agent) ?? [];
  const last = entries[own.findLast((index) => entries[index]?.run?.uid === run.uid) ?? -1];
  return last?.event === "run.handedback" ? (reasons[last.title.split(": ")[1] ?? ""] ?? "") : "";
}
