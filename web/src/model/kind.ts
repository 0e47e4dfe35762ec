/** The kinds of events that the viewer shows. Other records of a session are lifecycle: counted, exported, not listed. */
export const kinds = ["input", "reasoning", "output", "tool", "mcp"] as const;
export type Kind = (typeof kinds)[number];

export const kindLabels: Readonly<Record<Kind, string>> = {
  input: "Model input",
  reasoning: "Reasoning",
  output: "Model output",
  tool: "Tool",
  mcp: "MCP",
};
