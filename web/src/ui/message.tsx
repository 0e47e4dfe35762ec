import type { Block, Message } from "../api/schema";
import { Fold } from "./fold";
import { Image } from "./image";
import { Json } from "./json";
import { Prose } from "./prose";
import { Text } from "./text";

interface Props {
  message: Message;
  openReasoning?: boolean;
  /** Which message of a model input it is. */
  index?: number;
}

/** Content shows what a message holds, block by block in its order. */
export function Content({ message, openReasoning = false, index }: Props) {
  const content = message.content;
  const mono = message.role === "toolResult";
  if (content === undefined) return <Json value={message} />;
  if (typeof content === "string") return content === "" ? <Empty /> : <Said text={content} mono={mono} />;
  if (content.length === 0) return message.errorMessage ? null : <Empty />;
  return (
    <>
      {content.map((block, i) => (
        <Part key={i} block={block} mono={mono} openReasoning={openReasoning} message={index} at={i} />
      ))}
    </>
  );
}

/** Said is what somebody wrote, or what a tool printed. */
function Said({ text, mono }: { text: string; mono: boolean }) {
  return mono ? <Text text={text} mono plain /> : <Prose text={text} />;
}

function Empty() {
  return <p class="muted">No content.</p>;
}

interface PartProps {
  block: Block;
  mono: boolean;
  openReasoning: boolean;
  message: number | undefined;
  at: number;
}

function Part({ block, mono, openReasoning, message, at }: PartProps) {
  switch (block.type) {
    case "text":
      if (block.text === undefined) break;
      return <Said text={block.text} mono={mono} />;
    case "thinking":
      return <Thinking block={block} open={openReasoning} />;
    case "toolCall":
      return (
        <div class="call">
          <p class="call-head">
            <span class="label">Tool call</span> <b>{block.name ?? "without a name"}</b> <code class="muted">{block.id ?? ""}</code>
          </p>
          <Json value={block.arguments} />
        </div>
      );
    case "image":
      return <Image block={block} message={message} at={at} />;
  }
  // A structure that is not known here keeps its JSON.
  return (
    <div class="call">
      <p class="call-head">
        <span class="label">{block.type}</span>
      </p>
      <Json value={block} />
    </div>
  );
}

function Thinking({ block, open }: { block: Block; open: boolean }) {
  if (block.redacted) return <p class="thinking muted">Reasoning that the provider encrypted. There is no text of it.</p>;
  if (!block.thinking) return <p class="thinking muted">Reasoning without a text.</p>;
  return (
    <Fold class="thinking" summary="Reasoning" open={open}>
      {() => <Prose text={block.thinking ?? ""} />}
    </Fold>
  );
}

/** roleLabel is what a recorded role is called on the page. */
export function roleLabel(role: string): string {
  switch (role) {
    case "user":
      return "User";
    case "assistant":
      return "Assistant";
    case "toolResult":
      return "Tool result";
    default:
      return role;
  }
}
