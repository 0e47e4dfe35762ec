import type { Entry } from "../api/schema";

/** The kinds of events that the viewer shows. Other records are lifecycle: counted and exported, not listed. */
export const kinds = ["input", "reasoning", "output", "tool", "mcp", "unknown"] as const;
export type Kind = (typeof kinds)[number];

export const kindLabels: Readonly<Record<Kind, string>> = {
  input: "Model input",
  reasoning: "Reasoning",
  output: "Model output",
  tool: "Tool",
  mcp: "MCP",
  unknown: "Unknown",
};

/** kindOf is an entry's kind, or null when the viewer does not list it. */
export function kindOf(entry: Entry): Kind | null {
  if (entry.hidden) return null;
  switch (entry.type) {
    case "modelInput":
      return "input";
    case "reasoning":
      return "reasoning";
    case "modelOutput":
      return "output";
    case "tool":
      return "tool";
    case "mcp":
      return "mcp";
    case "lifecycle":
      return null;
    default:
      return "unknown";
  }
}

/** purposeLabel tells requests that stand beside the conversation from those of it; empty for the latter. */
export function purposeLabel(entry: Pick<Entry, "purpose">): string {
  return entry.purpose === undefined || entry.purpose === "main" ? "" : entry.purpose;
}
