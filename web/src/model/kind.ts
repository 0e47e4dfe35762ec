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
