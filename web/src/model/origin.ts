import type { ContextBudget, InputMessage, SkillExpansion, Source, Usage } from "../api/schema";
import { inputTokens } from "./format";

/** Where a message of a model input came from, in words. */
export interface Origin {
  readonly kind: Source["type"] | "unavailable";
  readonly label: string;
  /** The position in history that the origin leads to; null when it leads nowhere. */
  readonly history: number | null;
  readonly explanation: string;
}

/** originOf reads the recorded source map and nothing else: what it does not say is unavailable, never guessed from text. */
export function originOf(message: InputMessage): Origin {
  const source = message.source;
  switch (source?.type) {
    case "history":
      return {
        kind: source.type,
        label: `history #${source.messageIndex}`,
        history: source.messageIndex,
        explanation: "The message stands in the history at this position, counted from 0.",
      };
    case "compaction":
      return {
        kind: source.type,
        label: `compaction ${source.checkpointId ?? ""} (before #${source.summarizedBefore ?? source.messageIndex})`,
        history: source.messageIndex,
        explanation: "A summary that stands for the messages of history before this position.",
      };
    case "runtime-context":
      return {
        kind: source.type,
        label: ["runtime context", source.snapshotIndex, skills(source.skills)].filter((part) => part !== undefined && part !== "").join(" "),
        history: source.messageIndex,
        explanation: `A stored runtime snapshot, anchored at history #${source.messageIndex} (user turn ${source.userTurn ?? "unknown"}).`,
      };
    case "tool-repair":
      return {
        kind: source.type,
        label: `tool repair ${source.toolCallId ?? ""}`.trim(),
        history: source.messageIndex,
        explanation: `A result that was missing for a call of history #${source.messageIndex}. It stands in this request only.`,
      };
    default:
      return { kind: "unavailable", label: "source unavailable", history: null, explanation: "The record does not say where this message came from." };
  }
}

/** expansionLabel says which Skills were put in front of a message's own text. */
export function expansionLabel(expansion: SkillExpansion): string {
  return `expanded skills ${skills(expansion.skills)}`.trim();
}

function skills(list: Source["skills"]): string {
  return (list ?? []).map((skill) => `${skill.id}@${skill.revision}`).join(", ");
}

/** A part of the context window. */
export interface BudgetPart {
  readonly key: "system" | "messages" | "tools" | "reserved" | "safety" | "free";
  readonly label: string;
  readonly tokens: number;
}

/** budgetParts divides a context window as the estimate does; what is over the window makes the parts larger than it. */
export function budgetParts(budget: ContextBudget): BudgetPart[] {
  const parts: BudgetPart[] = [
    { key: "system", label: "System prompt", tokens: budget.systemTokens },
    { key: "messages", label: "Messages", tokens: budget.messageTokens },
    { key: "tools", label: "Tools", tokens: budget.toolTokens },
    { key: "reserved", label: "Reserved for output", tokens: budget.reservedOutputTokens },
    { key: "safety", label: "Safety", tokens: budget.safetyTokens },
  ];
  const used = parts.reduce((sum, part) => sum + part.tokens, 0);
  parts.push({ key: "free", label: "Free", tokens: Math.max(budget.contextWindow - used, 0) });
  return parts.filter((part) => part.tokens > 0);
}

/** usedPercent is the estimated input in per cent of the window; null when there is no window to compare with. */
export function usedPercent(budget: ContextBudget | undefined): number | null {
  if (budget === undefined || budget.contextWindow <= 0) return null;
  return budget.usedPercent ?? Math.round((budget.estimatedInputTokens / budget.contextWindow) * 100);
}

/** A usage as a list of names and values: undefined stands for a count that was not reported. */
export function usageRows(usage: Usage | undefined): { label: string; value: number | undefined; part: boolean }[] {
  const total = inputTokens(usage);
  return [
    { label: "Input", value: total ?? undefined, part: false },
    { label: "of it read from cache", value: usage?.cacheRead, part: true },
    { label: "of it written to cache", value: usage?.cacheWrite, part: true },
    { label: "Output", value: usage?.output, part: false },
    { label: "of it reasoning", value: usage?.reasoning, part: true },
  ];
}
