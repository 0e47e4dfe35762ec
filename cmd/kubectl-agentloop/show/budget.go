package show

import (
	"fmt"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/term"
)

// barWidth is the width of a bar in characters.
const barWidth = 40

// Budget says how full a request's window is. b is nil when nothing was measured yet.
func Budget(b *api.ContextBudget, paint term.Paint) string {
	if b == nil {
		return "not measured yet\n"
	}
	share := 0
	if b.UsedPercent != nil {
		share = int(*b.UsedPercent)
	} else if b.ContextWindow > 0 {
		share = int(b.EstimatedInputTokens * 100 / b.ContextWindow)
	}
	out := fmt.Sprintf("%s %d%% of %s tokens (%s/%s)\n", paint.Bar(share, barWidth), share, Grouped(b.ContextWindow), b.Provider, b.Model)
	table := term.Table{}
	row := func(name string, n int64, what string) { table.Add(name, fmt.Sprintf("%12s", Grouped(n)), what) }
	row("system prompt", b.SystemTokens, "instructions and skills that are listed")
	row("messages", b.MessageTokens, "the conversation, with runtime context")
	row("tools", b.ToolTokens, "declarations with their schemas")
	row("reserved", b.ReservedOutputTokens, "for the answer")
	row("safety", b.SafetyTokens, "what estimates may be wrong by")
	if b.RemainingInputTokens >= 0 {
		row("free", b.RemainingInputTokens, "for more")
	} else {
		row("too large by", -b.RemainingInputTokens, "it is not sent: compact the session, or shorten the prompt")
	}
	out += table.String(paint)
	if b.CalibratedInputTokens != nil {
		fits := "fits"
		if b.CalibratedFits != nil && !*b.CalibratedFits {
			fits = "does not fit"
		}
		out += fmt.Sprintf("By what this model counted before, the %s estimated tokens are %s: it %s.\n", Grouped(b.EstimatedInputTokens), Grouped(*b.CalibratedInputTokens), fits)
	}
	return out
}
