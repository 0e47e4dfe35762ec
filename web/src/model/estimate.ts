import type { InputMessage, Message } from "../api/schema";

// The size of single messages, which is not recorded: only that of all of them is. It is estimated here as the heuristic estimator
// of requests does it: a quarter of a token for an ASCII character, half the UTF-8 length for another one, and what surrounds it.

const envelope = 16;
const image = 1_200;

/** estimateMessage is about how many tokens a message takes; null when the message is not there. */
export function estimateMessage(item: InputMessage): number | null {
  const message = item.message;
  if (message === undefined) return null;
  return envelope + content(message);
}

function content(message: Message): number {
  if (message.content === undefined) return 0;
  if (typeof message.content === "string") return textTokens(message.content);
  const named = message.role === "toolResult" ? textTokens(message.toolName ?? "") + textTokens(message.toolCallId ?? "") : 0;
  return message.content.reduce((sum, block) => sum + (block.type === "image" ? image : textTokens(JSON.stringify(block))), named);
}

/** textTokens is the estimate of a text. */
export function textTokens(text: string): number {
  let quarters = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x80) quarters += 1;
    else if (code < 0x800) quarters += 4;
    else quarters += 8;
    // Two halves are one character of four bytes.
    if (code >= 0xd800 && code <= 0xdbff) i++;
  }
  return Math.ceil(quarters / 4);
}
