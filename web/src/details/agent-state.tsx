import type { ComponentChildren } from "preact";
import type { AgentState, Totals } from "../api/schema";
import { bytes, count, date, notRecorded, shortDigest } from "../model/format";
import { dayClock } from "../ui/preferences";

/** State shows the committed state that held when an event was recorded. */
export function StateView({ state, isInput }: { state: AgentState | undefined; isInput: boolean }) {
  if (!state) {
    return (
      <section class="block">
        <p class="muted">
          No state had been committed when this was recorded. The first one is committed with the first completed step of a session.
        </p>
      </section>
    );
  }
  return (
    <section class="block">
      <p class="muted">{isInput ? "The committed state that this input was assembled from." : "The committed state that held when this was recorded."}</p>
      <dl class="facts-list">
        <Fact name="Agent">{state.agent}</Fact>
        <Fact name="Run">{state.run.name ?? state.run.uid}</Fact>
        <Fact name="Turn">{count(state.turn)}</Fact>
        <Fact name="Model">{state.model ? `${state.model.provider} / ${state.model.id}` : notRecorded}</Fact>
        <Fact name="History">
          {count(state.historyMessages)} messages{state.addedMessages === undefined ? "" : `, ${count(state.addedMessages)} of them added by the turn`}
        </Fact>
        <Fact name="Covers events up to">#{state.lastSequence}</Fact>
        <Fact name="Run started">{state.startedAt === undefined ? notRecorded : date(state.startedAt, dayClock())}</Fact>
        {state.attempt !== undefined && <Fact name="Attempt">{count(state.attempt)}</Fact>}
        {state.worker !== undefined && <Fact name="Worker">{state.worker}</Fact>}
        <Fact name="Model requests">{count(state.requests)}</Fact>
        <Fact name="Tool calls">{count(state.toolCalls)}</Fact>
        <Fact name="Tokens of the run">{totals(state.usage)}</Fact>
        <Fact name="Tokens of earlier runs">{totals(state.earlier)}</Fact>
        {state.terminal !== undefined && <Fact name="Ended with">{state.terminal}</Fact>}
        <Fact name="State">
          <code title={state.ref.digest}>{shortDigest(state.ref.digest)}</code> {bytes(state.ref.size)}
        </Fact>
        {state.checkpoint && (
          <Fact name="Compaction">
            <code title={state.checkpoint.digest}>{shortDigest(state.checkpoint.digest)}</code>
          </Fact>
        )}
        {state.snapshots && state.snapshots.length > 0 && (
          <Fact name="Runtime snapshots">
            {state.snapshots.map((snapshot) => (
              <code key={snapshot.digest} title={snapshot.digest}>
                {shortDigest(snapshot.digest)}{" "}
              </code>
            ))}
          </Fact>
        )}
      </dl>
    </section>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function totals(sum: Totals | undefined): string {
  if (sum?.requests === 0) return "none";
  if (!sum || (sum.input === undefined && sum.output === undefined)) return notRecorded;
  const input = sum.input === undefined ? "?" : count(sum.input + (sum.cacheRead ?? 0) + (sum.cacheWrite ?? 0));
  const output = sum.output === undefined ? "?" : count(sum.output);
  const reported = sum.requests - sum.requestsWithoutUsage;
  return `${input} → ${output} (${count(reported)} of ${count(sum.requests)} requests reported)`;
}
