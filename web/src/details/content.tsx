import type { Detail, Entry, Failure, ModelOutput, TextContent } from "../api/schema";
import { plural } from "../model/format";
import { Json } from "../ui/json";
import { Content } from "../ui/message";
import { Prose } from "../ui/prose";
import { Text } from "../ui/text";
import { Tool, type Session } from "./tool";
import { UsageTable } from "./usage";

/** EventContent shows what one event is, other than a model input. A structure that is not known keeps its JSON. */
export function EventContent({ detail, ...session }: { detail: Detail } & Session) {
  const { entry, output, text, tool, message, failure } = detail;
  const known = output ?? text ?? tool ?? message ?? failure;
  return (
    <>
      {output && <Output output={output} />}
      {text && <Increments text={text} entry={entry} />}
      {tool && <Tool detail={detail} tool={tool} {...session} />}
      {message && (
        <section class="block">
          <Content message={message} openReasoning />
        </section>
      )}
      {failure && <Failed failure={failure} />}
      {known === undefined && (
        <section class="block">
          <p class="muted">
            {detail.notices.length > 0 ? "What this record names cannot be shown." : "This version knows no view of this record."} Its stored events:
          </p>
          <Json value={detail.events.map((event) => event.event)} />
        </section>
      )}
    </>
  );
}

function Output({ output }: { output: ModelOutput }) {
  const facts = [
    output.stopReason ? `stopped: ${output.stopReason}` : "",
    output.rawStopReason && output.rawStopReason !== output.stopReason ? `provider: ${output.rawStopReason}` : "",
    output.requestOutputTokenLimit === undefined ? "" : plural(output.requestOutputTokenLimit, "output token") + " at most",
    output.responseId ? `response ${output.responseId}` : "",
  ];
  return (
    <>
      <section class="block response">
        {output.message ? (
          <Content message={output.message} openReasoning />
        ) : (
          <p class="unavailable">{output.unavailable ?? "The stored response is not there. The event record itself is intact."}</p>
        )}
        {output.message?.errorMessage && <p class="error">{output.message.errorMessage}</p>}
      </section>
      <UsageTable usage={output.usage} />
      <p class="block muted">{facts.filter((fact) => fact !== "").join(" · ")}</p>
    </>
  );
}

function Increments({ text, entry }: { text: TextContent; entry: Entry }) {
  return (
    <section class="block response">
      {entry.status === "unfinished" && <p class="warning">The request has no complete response. This is what was recorded of it.</p>}
      {text.parts.length > 1 ? text.parts.map((part) => <Prose key={part.block} text={part.text} />) : <Prose text={text.text} />}
      {text.text === "" && <p class="muted">No text was recorded.</p>}
    </section>
  );
}

function Failed({ failure }: { failure: Failure }) {
  const facts = [
    failure.event,
    failure.reason ?? "",
    failure.class ?? "",
    failure.httpStatus === undefined ? "" : `HTTP ${failure.httpStatus}`,
    failure.retryable === undefined ? "" : failure.retryable ? "can be tried again" : "is not tried again",
  ];
  return (
    <section class="block failure">
      <h3>Why there is no response</h3>
      {failure.message && <p class="error">{failure.message}</p>}
      <p class="muted">{facts.filter((fact) => fact !== "").join(" · ")}</p>
      {failure.detail && <Text text={failure.detail} mono />}
    </section>
  );
}
