import type { Run } from "../api/schema";
import { count, duration, inputTokens, plural } from "../model/format";

/** runSummary says how far a run went. A sum says how many responses it is over: what was not reported is not zero. */
export function runSummary(run: Run): string {
  const parts = run.operation !== undefined && run.operation !== "Prompt" ? [run.operation] : [];
  parts.push(plural(run.turns, "turn"));
  if (run.attempts > 1) parts.push(plural(run.attempts, "attempt"));
  if (run.startedAt !== undefined && run.endedAt !== undefined && run.endedAt > run.startedAt) parts.push(duration(run.endedAt - run.startedAt));
  const reported = run.requests - run.requestsWithoutUsage;
  const input = inputTokens(run.usage);
  if (run.requests > 0 && (input === null || reported === 0)) parts.push("tokens not recorded");
  else if (input !== null) {
    const of = run.requestsWithoutUsage > 0 ? ` (${count(reported)} of ${count(run.requests)} reported)` : "";
    parts.push(`${count(input)} → ${run.usage?.output === undefined ? "?" : count(run.usage.output)} tokens${of}`);
  }
  return parts.join(" · ");
}

/** runStatus says how a run ended, with the recorded reason where there is one. */
export function runStatus(run: Run): string {
  const word = { running: "Running", succeeded: "Succeeded", failed: "Failed", cancelled: "Cancelled" }[run.status];
  return run.reason === undefined || run.reason === "" || run.reason === word ? word : `${word}: ${run.reason}`;
}
