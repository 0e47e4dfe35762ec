import type { ContextBudget } from "../api/schema";
import { count } from "../model/format";
import { usedPercent } from "../model/origin";

const radius = 15;
const round = 2 * Math.PI * radius;

/** Ring shows how much of the context window the latest estimate takes. */
export function Ring({ budget }: { budget: ContextBudget | undefined }) {
  const percent = usedPercent(budget);
  if (budget === undefined || percent === null) {
    return (
      <div class="ring" title="No estimate of the context was recorded.">
        <span class="muted">Context: not measured</span>
      </div>
    );
  }
  const part = Math.min(percent, 100) / 100;
  const label = `Context ${percent} %: about ${count(budget.estimatedInputTokens)} of ${count(budget.contextWindow)} tokens, an estimate`;
  return (
    <div class={`ring${budget.fits ? "" : " over"}`} role="img" aria-label={label} title={label}>
      <svg viewBox="0 0 40 40" width="40" height="40" aria-hidden="true">
        <circle class="ring-track" cx="20" cy="20" r={radius} />
        <circle class="ring-value" cx="20" cy="20" r={radius} stroke-dasharray={`${part * round} ${round}`} transform="rotate(-90 20 20)" />
      </svg>
      <span aria-hidden="true">
        <b>{percent} %</b>
        <small>of context</small>
      </span>
    </div>
  );
}
