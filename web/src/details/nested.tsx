import type { ToolContent } from "../api/schema";
import { date, duration, notRecorded, plural } from "../model/format";
import { executionsOf, type Nested } from "../model/nested";
import { Fold } from "../ui/fold";
import { Json } from "../ui/json";
import { dayClock } from "../ui/preferences";

/** NestedCalls lists what the code of a call called, for each execution by itself. */
export function NestedCalls({ tool }: { tool: ToolContent }) {
  const executions = executionsOf(tool);
  if (executions.length === 0) return null;
  return (
    <section class="block nested">
      <h3>Calls that its code made</h3>
      {executions.map(({ attempt, calls }) => (
        <div key={attempt}>
          <p class="muted">
            {plural(calls.length, "call")}
            {tool.attempts.length > 1 && ` in attempt ${attempt}`}
          </p>
          <ol>
            {calls.map((one) => (
              <li key={one.call.number}>
                <Fold summary={<Summary {...one} />}>{() => <Call {...one} />}</Fold>
              </li>
            ))}
          </ol>
        </div>
      ))}
    </section>
  );
}

function Summary({ call, took, outcome }: Nested) {
  return (
    <>
      {call.number}. <b>{call.name}</b>
      {call.server && <span class="muted"> · {call.server}</span>}
      {took !== null && <span class="muted"> · {duration(took)}</span>}
      {outcome !== "ok" && (
        <>
          {" "}
          <span class={outcome === "ended" ? "chip" : "chip bad"}>{outcome || "end not recorded"}</span>
        </>
      )}
    </>
  );
}

function Call({ call, outcome }: Nested) {
  return (
    <>
      {call.startedAt !== undefined && <p class="muted">Started {date(call.startedAt, dayClock())}</p>}
      {outcome === "" && <p class="warning">The end of this call was not recorded. It may have taken effect.</p>}
      <p class="label">Parameters</p>
      {call.parameters === undefined ? <p class="muted">{notRecorded}</p> : <Json value={call.parameters} />}
      {call.audit !== undefined && (
        <>
          <p class="label">Exchange</p>
          <Json value={call.audit} />
        </>
      )}
    </>
  );
}
