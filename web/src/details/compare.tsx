import type { ComponentChildren } from "preact";
import { useContext, useMemo } from "preact/hooks";
import type { Entry, InputMessage, ModelInput } from "../api/schema";
import { compare, messageText, toolText, type Comparison, type SectionStep, type Step, type SystemChange, type ToolChange, type Why } from "../model/compare";
import { count, plural } from "../model/format";
import { Fold } from "../ui/fold";
import { Shown } from "../ui/image";
import { Json } from "../ui/json";
import { Lazy, useLazy } from "../ui/lazy";
import { Text } from "../ui/text";
import { Item, type HistoryRoute } from "./model-input";

const diff = new Lazy(() => import("./text-diff").then((part) => part.TextDiff));

interface Props {
  before: ModelInput;
  previous: Entry;
  after: ModelInput;
  onEntry: (id: string) => void;
  historyRoute: HistoryRoute;
}

/** Compare shows what an input has that the agent's input before it had not, and what became of the rest. */
export function Compare({ before, previous, after, onEntry, historyRoute }: Props) {
  const comparison = useMemo(() => compare(before, after), [before, after]);
  return (
    <div class="compare">
      <div class="block">
        <p>
          Compared with input #{previous.sequence}
          {previous.run && `, run ${previous.run.name ?? previous.run.uid}`}
          {previous.turn !== undefined && `, turn ${previous.turn}`}.{" "}
          <button type="button" class="link" onClick={() => onEntry(previous.id)}>
            View that input
          </button>
        </p>
        <Counts comparison={comparison} />
        {(!before.verified || !after.verified) && (
          <p class="warning">The stored parts of one of the inputs do not make exactly what was fixed. What is compared is what could be read.</p>
        )}
      </div>
      <Facts facts={comparison.facts} />
      <System change={comparison.system} />
      <section class="block">
        <h3>Messages</h3>
        <ol class="steps">
          {comparison.steps.map((step, i) => (
            <StepView key={i} step={step} total={after.messages.length} previous={previous.id} historyRoute={historyRoute} />
          ))}
        </ol>
        {comparison.steps.length === 0 && <p class="muted">Neither input has messages.</p>}
      </section>
      <Tools tools={comparison.tools} />
    </div>
  );
}

function Counts({ comparison }: { comparison: Comparison }) {
  if (comparison.same) return <p class="counts">Both inputs have the same bytes.</p>;
  const names = { kept: "kept", appended: "appended", inserted: "inserted", changed: "changed", summarised: "replaced by a summary", removed: "removed" } as const;
  return (
    <p class="counts">
      {(Object.keys(names) as (keyof typeof names)[])
        .filter((key) => comparison.counts[key] > 0)
        .map((key) => (
          <span key={key} class={`chip step-${key}`}>
            {count(comparison.counts[key])} {names[key]}
          </span>
        ))}
    </p>
  );
}

function Facts({ facts }: Pick<Comparison, "facts">) {
  if (facts.length === 0) return null;
  return (
    <section class="block">
      <h3>Model and parameters</h3>
      <dl class="facts-list">
        {facts.map((fact) => (
          <div key={fact.name}>
            <dt>{fact.name}</dt>
            <dd>
              <del>{fact.before || "not set"}</del> → <ins>{fact.after || "not set"}</ins>
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function System({ change }: { change: SystemChange }) {
  if (change.kind === "none") return null;
  return (
    <section class="block">
      <h3>System prompt</h3>
      {change.kind === "kept" && <p class="muted">Not changed.</p>}
      {change.kind === "changed" && !change.sections && <TextChange before={change.before} after={change.after} />}
      {change.kind === "changed" && change.sections?.map((step) => <Section key={`${step.kind} ${step.id}`} step={step} />)}
      {(change.kind === "added" || change.kind === "removed") && (
        <Labelled kind={change.kind} label={change.kind === "added" ? "Added" : "Removed"}>
          <Text text={change.kind === "added" ? change.after : change.before} />
        </Labelled>
      )}
    </section>
  );
}

function Section({ step }: { step: SectionStep }) {
  const name = step.id === "" ? "preamble" : step.id;
  if (step.kind === "kept") return <p class="muted">Section {name}: not changed.</p>;
  const label = { added: "added", removed: "removed", changed: "changed" }[step.kind];
  return (
    <Labelled kind={step.kind} label={`Section ${name}: ${label}`}>
      {step.kind === "changed" ? <TextChange before={step.before} after={step.after} /> : <Text text={step.before + step.after} />}
    </Labelled>
  );
}

const reasons: Readonly<Record<Why, string>> = {
  history: "Changed: the same message of the history with other content",
  "runtime-context": "Changed: the same runtime snapshot with other content",
  compaction: "Changed: the same summary with other content",
  repaired: "Changed: a repair and a recorded result of the same call",
};

interface StepProps {
  step: Step;
  total: number;
  /** The ID of the input before it. */
  previous: string;
  historyRoute: HistoryRoute;
}

function StepView({ step, total, previous, historyRoute }: StepProps) {
  const shown = useContext(Shown);
  const item = (message: InputMessage, plain = false) => (
    <Shown.Provider value={plain && shown ? { ...shown, id: previous } : shown}>
      <Item item={message} total={plain ? null : total} historyRoute={historyRoute} />
    </Shown.Provider>
  );
  switch (step.kind) {
    case "kept":
      return (
        <li class="step kept">
          <Fold summary={`${plural(step.messages.length, "message")} kept`}>{() => <Messages messages={step.messages} item={item} />}</Fold>
        </li>
      );
    case "added":
      return (
        <li class="step">
          <Labelled kind="added" label={step.appended ? "Appended" : "Inserted"}>
            <ol>{item(step.message)}</ol>
          </Labelled>
        </li>
      );
    case "removed":
      return (
        <li class="step">
          <Labelled kind="removed" label="Removed">
            <ol>{item(step.message, true)}</ol>
          </Labelled>
        </li>
      );
    case "summarised":
      return (
        <li class="step">
          <Labelled kind="changed" label={step.messages.length === 0 ? "A summary was added" : `A summary took the place of ${plural(step.messages.length, "message")}`}>
            <ol>{item(step.summary)}</ol>
            {step.messages.length > 0 && (
              <Fold summary={`${plural(step.messages.length, "message")} that it stands for`}>
                {() => <Messages messages={step.messages} item={(message) => item(message, true)} />}
              </Fold>
            )}
          </Labelled>
        </li>
      );
    case "changed":
      return (
        <li class="step">
          <Labelled kind="changed" label={why(step)}>
            <TextChange before={messageText(step.before.message)} after={messageText(step.after.message)} />
            <Fold summary="The message as it is now">{() => <ol>{item(step.after)}</ol>}</Fold>
          </Labelled>
        </li>
      );
  }
}

function why(step: Extract<Step, { kind: "changed" }>): string {
  const skills = (message: InputMessage) => (message.skillExpansion?.skills ?? []).map((skill) => `${skill.id}@${skill.revision}`).join(" ");
  if (skills(step.before) !== skills(step.after)) return "Changed: other Skills stand in front of the message";
  return reasons[step.why];
}

/** How many folded messages are unfolded at a time. */
const most = 200;

function Messages({ messages, item }: { messages: readonly InputMessage[]; item: (message: InputMessage) => ComponentChildren }) {
  return (
    <>
      <ol>{messages.slice(0, most).map((message) => item(message))}</ol>
      {messages.length > most && <p class="muted">{count(messages.length - most)} more stand in the input itself.</p>}
    </>
  );
}

function Tools({ tools }: Pick<Comparison, "tools">) {
  return (
    <section class="block">
      <h3>Tool definitions</h3>
      {tools.kept > 0 && <p class="muted">{plural(tools.kept, "definition")} not changed.</p>}
      {tools.reordered && <p>They stand in another order.</p>}
      {tools.changes.map((change) => (
        <Labelled key={`${change.kind} ${change.name}`} kind={change.kind} label={`${change.name}: ${change.kind}`}>
          <ToolView change={change} />
        </Labelled>
      ))}
      {tools.kept === 0 && tools.changes.length === 0 && <p class="muted">Neither input declares tools.</p>}
    </section>
  );
}

function ToolView({ change }: { change: ToolChange }) {
  if (change.kind === "changed") return <TextChange before={toolText(change.before)} after={toolText(change.after)} />;
  const tool = change.after ?? change.before;
  return (
    <>
      <Text text={tool?.description ?? ""} />
      <Fold summary="Parameters">{() => <Json value={tool?.parameters} />}</Fold>
    </>
  );
}

function Labelled({ kind, label, children }: { kind: "added" | "removed" | "changed"; label: string; children: ComponentChildren }) {
  return (
    <div class={`change ${kind}`}>
      <p class="change-label">{label}</p>
      {children}
    </div>
  );
}

/** TextChange compares two texts, as soon as what does so is there. */
function TextChange({ before, after }: { before: string; after: string }) {
  const part = useLazy(diff);
  const Diff = part.value;
  if (Diff) return <Diff before={before} after={after} />;
  if (part.failed) {
    return (
      <>
        <Text text={before} mono />
        <Text text={after} mono />
      </>
    );
  }
  return <div class="skeleton line" aria-hidden="true" />;
}
