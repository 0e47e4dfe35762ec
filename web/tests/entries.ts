import type { Entry } from "../src/api/schema";

let next = 0;

/** entry makes an entry for tests; what is not said is that of a completed tool of the main agent. */
export function entry(part: Partial<Entry> = {}): Entry {
  const sequence = part.sequence ?? ++next;
  return {
    id: `e${sequence}`,
    agent: "main",
    type: "tool",
    event: "tool.call",
    sequence,
    title: "read",
    hidden: false,
    status: "completed",
    capturedAt: 1_000_000 * sequence,
    run: { uid: "u1", name: "first" },
    ...part,
  };
}
