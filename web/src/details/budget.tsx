import type { Assembly, Usage } from "../api/schema";
import { count, inputTokens, notRecorded } from "../model/format";
import { budgetParts } from "../model/origin";

interface Props {
  assembly: Assembly;
  /** Of the response to this input; undefined when there is none or it reported nothing. */
  usage: Usage | undefined;
}

/** Budget shows the estimate that was made before the request, and apart from it what the provider counted. */
export function Budget({ assembly, usage }: Props) {
  const budget = assembly.budget;
  const parts = budgetParts(budget);
  const whole = parts.reduce((sum, part) => sum + part.tokens, 0);
  const provider = inputTokens(usage);
  return (
    <section class="budget" aria-label="Context budget">
      <div class="budget-bar" aria-hidden="true">
        {parts.map((part) => (
          <span key={part.key} class={`part-${part.key}`} style={{ width: `${(part.tokens / Math.max(whole, 1)) * 100}%` }} />
        ))}
      </div>
      <ul class="budget-legend">
        {parts.map((part) => (
          <li key={part.key}>
            <span class={`swatch part-${part.key}`} aria-hidden="true" /> {part.label} {count(part.tokens)}
          </li>
        ))}
      </ul>
      <dl class="budget-counts">
        <div>
          <dt>
            Input <span class="chip">estimate</span>
          </dt>
          <dd class={budget.fits ? "" : "error"}>
            {count(budget.estimatedInputTokens)} of {count(budget.inputLimit)} tokens{budget.fits ? "" : ", does not fit"}
          </dd>
        </div>
        <div>
          <dt>
            Input <span class="chip">provider</span>
          </dt>
          <dd>{provider === null ? notRecorded : `${count(provider)} tokens`}</dd>
        </div>
        <div>
          <dt>Window</dt>
          <dd>{count(budget.contextWindow)}</dd>
        </div>
        {budget.calibratedInputTokens !== undefined && (
          <div>
            <dt>
              Calibrated <span class="chip">estimate</span>
            </dt>
            <dd>{count(budget.calibratedInputTokens)}</dd>
          </div>
        )}
        <div>
          <dt>Estimator</dt>
          <dd>{assembly.estimator}</dd>
        </div>
      </dl>
    </section>
  );
}
