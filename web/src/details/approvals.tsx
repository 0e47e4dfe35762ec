import type { Approval, ToolContent } from "../api/schema";
import { date } from "../model/format";
import { dayClock } from "../ui/preferences";

/** Approvals says that a person was asked whether the call may be made, and what they decided. */
export function Approvals({ tool }: { tool: ToolContent }) {
  if (tool.approvals === undefined || tool.approvals.length === 0) return null;
  return (
    <section class="block">
      <h3>Approval</h3>
      <dl class="facts-list">
        {tool.approvals.map((one) => (
          <div key={one.entryId}>
            <dt>{labels[one.decision]}</dt>
            <dd>
              {details(one)}
              {one.reason && <p>“{one.reason}”</p>}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

const labels: Record<Approval["decision"], string> = { requested: "Asked", approved: "Approved", denied: "Denied", expired: "Not decided in time" };

function details(one: Approval): string {
  const parts = [];
  if (one.approver) parts.push(`by ${one.approver}`);
  if (one.at !== undefined) parts.push(date(one.at, dayClock()));
  if (one.until !== undefined) parts.push(`until ${date(one.until, dayClock())}`);
  return parts.join(", ");
}
