import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Assembly, InputMessage, InputTool, ModelInput, SystemPrompt, Usage } from "../api/schema";
import { bytes, count, inputTokens, notRecorded, plural, shortDigest } from "../model/format";
import { expansionLabel, originOf } from "../model/origin";
import { follow, link } from "../navigation";
import type { Route } from "../route";
import { Fold } from "../ui/fold";
import { Json } from "../ui/json";
import { Content, roleLabel } from "../ui/message";
import { printing } from "../ui/printing";
import { Text } from "../ui/text";
import { Budget } from "./budget";
import { Rail } from "./rail";

interface Props {
  input: ModelInput;
  assembly: Assembly | undefined;
  /** Of the response to this input. */
  usage: Usage | undefined;
  /** The conversation at a position of the agent's history. */
  historyRoute: HistoryRoute;
  /** Receives what jumps to a part, for the keys of the page. */
  jump: { current: ((to: Jump) => void) | null };
}

/** The conversation at a position of the agent's history. */
export type HistoryRoute = (index: number) => Route;

/** A part of an input; a number is a message's index. */
export type Jump = "system" | "first" | "newest" | number;

/** How many messages are on the page at a time. */
const portion = 100;

/**
 * Input shows the fixed input of one request: the system prompt and the messages in their actual order, and apart from them
 * the tools. It begins at the newest message.
 */
export function Input({ input, assembly, usage, historyRoute, jump }: Props) {
  const total = input.messages.length;
  const [range, setRange] = useState({ first: Math.max(total - portion, 0), last: total });
  const [goal, setGoal] = useState<{ to: Jump }>({ to: "newest" });
  const scroller = useRef<HTMLDivElement>(null);

  const go = (to: Jump) => {
    const index = to === "first" ? 0 : to === "newest" ? total - 1 : to;
    if (index !== "system" && (index < range.first || index >= range.last)) {
      const first = Math.max(Math.min(index - Math.floor(portion / 2), total - portion), 0);
      setRange({ first, last: Math.min(first + portion, total) });
    }
    setGoal({ to });
  };
  jump.current = go;
  const current = goal.to === "system" || goal.to === "first" ? 0 : goal.to === "newest" ? total - 1 : goal.to;
  useLayoutEffect(() => {
    const target = goal.to === "system" ? "[data-part=system]" : `[data-message="${current}"]`;
    scroller.current?.querySelector(target)?.scrollIntoView({ block: "start" });
  }, [goal]);
  const shown = printing.value ? { first: 0, last: total } : range;

  return (
    <div class="model-input">
      <nav class="input-nav" aria-label="Parts of the input">
        <button type="button" onClick={() => go("system")} disabled={!input.system}>
          System prompt
        </button>
        <button type="button" onClick={() => go("first")} disabled={total === 0}>
          First message
        </button>
        <button type="button" onClick={() => go("newest")} disabled={total === 0}>
          Newest message
        </button>
        {assembly && <Sizes estimate={assembly.budget.estimatedInputTokens} provider={inputTokens(usage)} />}
      </nav>
      <div class="input-main">
        {total > 0 && <Rail messages={input.messages} current={current} onGo={go} />}
        <div class="input-scroll" ref={scroller} tabIndex={0} role="region" aria-label="Model input">
          <Fixed input={input} />
          {assembly && <Budget assembly={assembly} usage={usage} />}
          {input.system ? <System prompt={input.system} /> : <p class="muted block">There is no system prompt.</p>}
          {shown.first > 0 && (
            <button type="button" class="more" onClick={() => setRange({ ...range, first: Math.max(range.first - portion, 0) })}>
              Show {count(Math.min(portion, range.first))} of {count(range.first)} earlier messages
            </button>
          )}
          <ol class="input-messages" start={shown.first + 1}>
            {input.messages.slice(shown.first, shown.last).map((message) => (
              <Item key={message.index} item={message} historyRoute={historyRoute} total={total} />
            ))}
          </ol>
          {shown.last < total && (
            <button type="button" class="more" onClick={() => setRange({ ...range, last: Math.min(range.last + portion, total) })}>
              Show {count(Math.min(portion, total - range.last))} of {count(total - range.last)} later messages
            </button>
          )}
        </div>
      </div>
      <Tools tools={input.tools} />
    </div>
  );
}

/** Sizes keeps estimate and count apart and in view. */
function Sizes({ estimate, provider }: { estimate: number; provider: number | null }) {
  return (
    <span class="sizes muted">
      {count(estimate)} tokens <i>estimated</i> · {provider === null ? notRecorded : `${count(provider)} tokens`} <i>by the provider</i>
    </span>
  );
}

function Fixed({ input }: { input: ModelInput }) {
  const parameters = Object.entries(input.parameters).map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
  const facts = [
    `${input.model.provider} / ${input.model.id}`,
    input.model.api ?? "",
    ...parameters,
    plural(input.messages.length, "message"),
    bytes(input.inputSize),
  ];
  return (
    <div class="block">
      <p class="muted">
        {facts.filter((fact) => fact !== "").join(" · ")} · <code title={input.inputDigest}>{shortDigest(input.inputDigest)}</code>
      </p>
      {!input.verified && (
        <p class="warning">The stored parts do not make exactly the input that was fixed. What is shown is what could be read.</p>
      )}
    </div>
  );
}

function System({ prompt }: { prompt: SystemPrompt }) {
  const verified = prompt.provenance === "verified";
  return (
    <section class="message system" data-part="system">
      <p class="message-head">
        <b>System prompt</b>
        {verified ? (
          <span class="chip good" title="The recorded sections rebuild exactly this prompt.">
            source verified
          </span>
        ) : (
          <span class="chip bad" title={prompt.reason ?? ""}>
            source unavailable
          </span>
        )}
      </p>
      {!verified && prompt.reason && <p class="muted">{prompt.reason}</p>}
      {verified && prompt.sections.length > 0 ? (
        prompt.sections.map((section, i) => (
          <div class="section" key={i}>
            <p class="section-head">
              <span class="label">{section.id === "" ? "preamble" : section.id}</span>
              <code class="muted" title={section.digest}>
                {shortDigest(section.digest)}
              </code>
            </p>
            <Text text={section.text} />
          </div>
        ))
      ) : (
        <Text text={prompt.text} />
      )}
    </section>
  );
}

interface ItemProps {
  item: InputMessage;
  historyRoute: HistoryRoute;
  /** How many messages the input has; null for one of another input. */
  total: number | null;
}

/** Item is one message of an input with its recorded source. */
export function Item({ item, historyRoute, total }: ItemProps) {
  const origin = originOf(item);
  const label = (
    <span class={`chip origin ${origin.kind}`} title={origin.explanation}>
      {origin.label}
    </span>
  );
  return (
    <li class={`message ${item.role}${item.message?.isError ? " failed" : ""}`} data-message={item.index}>
      <p class="message-head">
        <b>
          {roleLabel(item.role)}
          {item.message?.toolName ? `: ${item.message.toolName}` : ""}
        </b>
        <span class="muted" title={item.digest ?? ""}>
          {total === null ? `${item.index + 1} of the previous input` : `${item.index + 1} of ${total}`}
        </span>
        {origin.history === null ? (
          label
        ) : (
          <a class="origin-link" href={link(historyRoute(origin.history))} onClick={follow(historyRoute(origin.history))}>
            {label}
          </a>
        )}
        {item.skillExpansion && (
          <span class="chip origin runtime-context" title={`Snapshot ${item.skillExpansion.snapshotIndex} stands in front of the message's own text.`}>
            {expansionLabel(item.skillExpansion)}
          </span>
        )}
        {item.message?.isError && <span class="chip bad">error</span>}
        {total !== null && item.index === total - 1 && <span class="chip">newest</span>}
      </p>
      {item.message ? <Content message={item.message} openReasoning index={item.index} /> : <p class="unavailable">{item.unavailable ?? "The message is not there."}</p>}
    </li>
  );
}

function Tools({ tools }: { tools: readonly InputTool[] }) {
  if (tools.length === 0) return <p class="tool-list none muted">No tools were declared.</p>;
  return (
    <Fold class="tool-list" summary={plural(tools.length, "tool definition")}>
      {() => (
        <div class="tool-list-scroll" tabIndex={0} role="region" aria-label="Tool definitions">
          {tools.map((tool, i) => (
            <Fold
              key={i}
              class="tool-item"
              summary={
                <>
                  <b>{tool.name}</b> <span class="muted">{tool.description.split("\n")[0]}</span>
                </>
              }
            >
              {() => (
                <>
                  <Text text={tool.description} />
                  <Json value={tool.parameters} />
                </>
              )}
            </Fold>
          ))}
        </div>
      )}
    </Fold>
  );
}
