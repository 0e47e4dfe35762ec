import type { Detail, Entry, ToolContent } from "../api/schema";
import { date, notRecorded } from "../model/format";
import type { Loaded } from "../model/trajectory";
import { useResource } from "../resource";
import { Fold } from "../ui/fold";
import { Json } from "../ui/json";
import { Content } from "../ui/message";
import { dayClock } from "../ui/preferences";
import { Problem } from "../ui/problem";
import { Text } from "../ui/text";
import { Approvals } from "./approvals";
import { NestedCalls } from "./nested";
import { keyOf, readDetail, versionOf } from "./read";
import { Whole } from "./whole";

/** The session that an event belongs to, as far as it was read. */
export interface Session {
  namespace: string;
  name: string;
  loaded: Loaded;
  onEntry: (id: string) => void;
}

type Props = Session & { detail: Detail; tool: ToolContent };

/** Tool shows one call: what it was given, what came back, and how it went. */
export function Tool({ detail, tool, ...session }: Props) {
  const { onEntry } = session;
  return (
    <>
      {tool.unavailable && <p class="unavailable block">{tool.unavailable}</p>}
      {tool.attempts.some((attempt) => attempt.unknown) && (
        <p class="warning block">The call was interrupted. Whether it took effect is not known.</p>
      )}
      <Parameters detail={detail} tool={tool} {...session} />
      <Approvals tool={tool} />
      <section class="block">
        <h3>
          Result {tool.isError && <span class="chip bad">error</span>}
        </h3>
        {tool.whole && <p class="muted">The result was cut before the model got it. This is what the model got:</p>}
        {tool.result ? <Content message={tool.result} /> : <p class="muted">{notRecorded}</p>}
        {tool.whole && <Whole key={detail.entry.id} namespace={session.namespace} name={session.name} id={detail.entry.id} size={tool.whole.size} />}
      </section>
      <NestedCalls tool={tool} />
      {tool.output && tool.output.text !== "" && (
        <section class="block">
          <h3>Output while it ran</h3>
          <Text text={tool.output.text} mono plain />
        </section>
      )}
      {tool.audit && tool.audit.length > 0 && (
        <Fold class="block" summary={`Exchange with ${tool.server ?? "the tool server"}`}>
          {() => <Json value={tool.audit} />}
        </Fold>
      )}
      <section class="block">
        <h3>Call</h3>
        <dl class="facts-list">
          <div>
            <dt>Call ID</dt>
            <dd>
              <code>{tool.callId}</code>
            </dd>
          </div>
          {tool.server && (
            <div>
              <dt>Server</dt>
              <dd>{tool.server}</dd>
            </div>
          )}
          {tool.attempts.map((attempt) => (
            <div key={attempt.attempt}>
              <dt>Attempt {attempt.attempt}</dt>
              <dd>
                {attempt.startedAt === undefined ? "start not recorded" : `started ${date(attempt.startedAt, dayClock())}`}
                {attempt.unknown && ", interrupted"}
              </dd>
            </div>
          ))}
          <div>
            <dt>Declared by</dt>
            <dd>
              {tool.callerId === undefined ? (
                "No response is recorded that declares this call."
              ) : (
                <button type="button" class="link" onClick={() => onEntry(tool.callerId ?? "")}>
                  Show the response that called it
                </button>
              )}
            </dd>
          </div>
        </dl>
      </section>
    </>
  );
}

function Parameters({ detail, tool, ...session }: Props) {
  const disagree = detail.notices.some((notice) => notice.code === "parametersDisagree");
  const others = disagree ? session.loaded.entries.filter((entry) => sameCall(entry, detail.entry)) : [];
  const supplemented = tool.supplemented;
  return (
    <section class="block">
      <h3>Parameters{others.length > 0 && ", as this record has them"}</h3>
      {supplemented && (
        <p class="warning">
          Parameters supplemented from a legacy segment: line {supplemented.line} of {supplemented.file}. The call’s own records have none.{" "}
          <button type="button" class="link" onClick={() => session.onEntry(supplemented.entryId)}>
            Show the segment
          </button>
        </p>
      )}
      {tool.parameters === undefined ? <p class="muted">{notRecorded}</p> : <Json value={tool.parameters} />}
      {tool.parameterSummary !== undefined && (
        <>
          <p class="label">What the old record kept of them</p>
          <Text text={tool.parameterSummary} mono />
        </>
      )}
      {others.map((entry) => (
        <Other key={entry.id} entry={entry} {...session} />
      ))}
    </section>
  );
}

/** sameCall tells another record of the same call, by agent and call ID. */
function sameCall(entry: Entry, of: Entry): boolean {
  return entry.id !== of.id && of.toolCallId !== undefined && entry.toolCallId === of.toolCallId && entry.agent === of.agent;
}

/** Other shows the parameters of another record of the same call, which are not the same. */
function Other({ entry, namespace, name, onEntry }: Session & { entry: Entry }) {
  const which = { namespace, name, id: entry.id, version: versionOf(entry) };
  const detail = useResource(keyOf(which), (signal) => readDetail(which, signal));
  const parameters = detail.value?.tool?.parameters;
  return (
    <div class="other">
      <h3>
        Parameters, as #{entry.sequence} has them{" "}
        <button type="button" class="link" onClick={() => onEntry(entry.id)}>
          Show that record
        </button>
      </h3>
      {detail.error !== null && <Problem error={detail.error} subject="event" namespace={namespace} onRetry={detail.reload} />}
      {detail.value && (parameters === undefined ? <p class="muted">{notRecorded}</p> : <Json value={parameters} />)}
    </div>
  );
}
