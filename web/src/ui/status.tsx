import type { SessionSummary } from "../api/schema";

/** Status shows a session's condition: what runs, or why it is not ready. */
export function Status({ session }: { session: Pick<SessionSummary, "deleted" | "status"> }) {
  if (session.deleted) return <span class="chip">Deleted, history kept</span>;
  const status = session.status;
  if (!status) return <span class="chip">Unknown</span>;
  const queued = status.queuedRuns ? ` · ${status.queuedRuns} queued` : "";
  if (status.activeRun) return <span class="chip live">Running{queued}</span>;
  if (status.ready === "True") return <span class="chip good">Ready{queued}</span>;
  return (
    <span class="chip bad" title={status.message ?? ""}>
      {status.reason ?? (status.ready === "False" ? "Not ready" : "Unknown")}
      {queued}
    </span>
  );
}
