import type { Usage } from "../api/schema";
import { count, notRecorded } from "../model/format";
import { usageRows } from "../model/origin";

/** UsageTable shows what a provider reported. What it did not report is said to be that; it is not zero. */
export function UsageTable({ usage }: { usage: Usage | undefined }) {
  return (
    <section class="block">
      <h3>Usage, as the provider reported it</h3>
      {usage === undefined ? (
        <p class="muted">{notRecorded}</p>
      ) : (
        <dl class="facts-list">
          {usageRows(usage)
            .filter((row) => !row.part || row.value !== undefined)
            .map((row) => (
              <div key={row.label} class={row.part ? "part" : ""}>
                <dt>{row.label}</dt>
                <dd>{row.value === undefined ? notRecorded : `${count(row.value)} tokens`}</dd>
              </div>
            ))}
          {usage.cost !== undefined && (
            <div>
              <dt>Cost</dt>
              <dd>{usage.cost} USD</dd>
            </div>
          )}
        </dl>
      )}
    </section>
  );
}
