package show

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/term"
)

// none stands for what is not there or not known.
const none = "<none>"

// Condition is a condition of a type; nil when there is none.
func Condition(conditions []metav1.Condition, kind string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// State is where a run is, or how it ended: the reason of its Succeeded condition.
func State(run *api.AgentRun) string {
	if c := Condition(run.Status.Conditions, api.ConditionSucceeded); c != nil {
		return c.Reason
	}
	return "New"
}

// stateColour is the colour of a run's state.
func stateColour(run *api.AgentRun) term.Colour {
	c := Condition(run.Status.Conditions, api.ConditionSucceeded)
	switch {
	case c == nil:
		return term.Plain
	case c.Status == metav1.ConditionTrue:
		return term.Good
	case c.Status == metav1.ConditionFalse:
		return term.Bad
	case c.Reason == api.RunReasonAwaitingApproval:
		return term.Attention
	}
	return term.Plain
}

// Runs is a table of runs, the oldest first.
func Runs(list []api.AgentRun, everywhere bool, now time.Time, paint term.Paint) string {
	runs := slices.Clone(list)
	slices.SortStableFunc(runs, func(x, y api.AgentRun) int {
		return x.CreationTimestamp.Compare(y.CreationTimestamp.Time)
	})
	table := term.Table{Headers: []string{"NAME", "SESSION", "AGENT", "STATUS", "TURN", "TOOLS", "CTX%", "IN", "OUT", "AGE"}}
	if everywhere {
		table.Headers = append([]string{"NAMESPACE"}, table.Headers...)
	}
	for i := range runs {
		run := &runs[i]
		cells := []term.Cell{
			{Text: run.Name}, {Text: run.Spec.SessionRef.Name}, {Text: run.Spec.Agent}, {Text: State(run), Colour: stateColour(run)},
			{Text: strconv.Itoa(int(run.Status.Turn))}, {Text: strconv.Itoa(int(run.Status.ToolCalls))}, {Text: percent(run.Status.ContextBudget)},
			{Text: count(usage(run.Status.Usage).Input)}, {Text: count(usage(run.Status.Usage).Output)}, {Text: age(run.CreationTimestamp.Time, now)},
		}
		if everywhere {
			cells = append([]term.Cell{{Text: run.Namespace}}, cells...)
		}
		table.AddCells(cells...)
	}
	return table.String(paint)
}

func usage(u *api.TokenUsage) api.TokenUsage {
	if u == nil {
		return api.TokenUsage{}
	}
	return *u
}

func count(n *int64) string {
	if n == nil {
		return none
	}
	return strconv.FormatInt(*n, 10)
}

func percent(b *api.ContextBudget) string {
	if b == nil || b.UsedPercent == nil {
		return none
	}
	return strconv.Itoa(int(*b.UsedPercent))
}

func age(since, now time.Time) string {
	if since.IsZero() {
		return none
	}
	return duration.HumanDuration(now.Sub(since))
}

// fields are lines of a name and what it is.
type fields struct {
	table term.Table
}

func (f *fields) add(name, value string) { f.colour(name, value, term.Plain) }

func (f *fields) colour(name, value string, colour term.Colour) {
	if value != "" {
		f.table.AddCells(term.Cell{Text: name + ":", Colour: term.Faint}, term.Cell{Text: value, Colour: colour})
	}
}

// Session describes a session with its latest runs.
func Session(s *api.AgentSession, runs []api.AgentRun, now time.Time, paint term.Paint) string {
	f := fields{}
	f.colour("Session", s.Namespace+"/"+s.Name, term.Strong)
	f.add("Title", s.Status.Title)
	f.add("Model", s.Spec.Model.ProviderRef.Name+"/"+s.Spec.Model.Model)
	f.add("Age", age(s.CreationTimestamp.Time, now))
	if s.Status.LastActivityTime != nil {
		f.add("Last activity", age(s.Status.LastActivityTime.Time, now)+" ago")
	}
	f.add("Runs", fmt.Sprintf("%d so far, %d waiting", s.Status.RunsTotal, s.Status.QueuedRuns))
	if s.Status.ActiveRun != nil {
		f.add("Active run", s.Status.ActiveRun.Name)
	}
	f.add("History", messages(s))
	f.add("Tokens", tokens(s.Status.Usage))
	f.add("Tool servers", names(s.Spec.ToolServers, func(t api.ToolServer) string { return t.Name }))
	f.add("Skills", names(s.Spec.Skills, func(k api.Skill) string { return k.ID }))
	f.add("Subagents", names(s.Spec.Subagents, func(a api.Subagent) string { return a.Name }))
	f.add("On deletion", string(s.Spec.History.OnDelete)+" the history")
	f.add("History UID", s.Status.StorageUID)
	f.add("Trajectory", s.Status.TrajectoryURL)
	out := f.table.String(paint)
	out += conditions(s.Status.Conditions, []string{api.ConditionReady, api.ConditionActive, api.ConditionHistoryDurable}, sessionAdvice, paint)
	out += "\n" + paint.As(term.Strong, "Context of the next request") + "\n" + indent(Budget(s.Status.ContextBudget, paint))
	if len(runs) > 0 {
		out += "\n" + paint.As(term.Strong, "Runs") + "\n" + indent(Runs(latest(runs, shownRuns), false, now, paint))
	}
	return out
}

// shownRuns is how many runs a description of a session has.
const shownRuns = 10

func latest(runs []api.AgentRun, n int) []api.AgentRun {
	sorted := slices.Clone(runs)
	slices.SortStableFunc(sorted, func(x, y api.AgentRun) int { return x.CreationTimestamp.Compare(y.CreationTimestamp.Time) })
	return sorted[max(0, len(sorted)-n):]
}

func messages(s *api.AgentSession) string {
	text := plural(s.Status.HistoryMessageCount, "message")
	if c := s.Status.Checkpoint; c != nil {
		text += fmt.Sprintf(", of which a summary stands for the first %d", c.Boundary)
	}
	return text
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}

func names[T any](all []T, name func(T) string) string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = name(one)
	}
	return strings.Join(out, ", ")
}

// tokens is a usage in words. What was not reported is not there.
func tokens(u *api.TokenUsage) string {
	if u == nil {
		return "not reported"
	}
	var parts []string
	for _, part := range []struct {
		name string
		n    *int64
	}{{"in", u.Input}, {"out", u.Output}, {"read from the cache", u.CacheRead}, {"written to the cache", u.CacheWrite}, {"of out for reasoning", u.Reasoning}} {
		if part.n != nil {
			parts = append(parts, Grouped(*part.n)+" "+part.name)
		}
	}
	return strings.Join(parts, ", ")
}

// Run describes a run.
func Run(r *api.AgentRun, now time.Time, paint term.Paint) string {
	f := fields{}
	f.colour("Run", r.Namespace+"/"+r.Name, term.Strong)
	f.add("Session", r.Spec.SessionRef.Name)
	f.add("Agent", r.Spec.Agent)
	f.add("Operation", string(r.Spec.Operation))
	if p := r.Spec.Parent; p != nil {
		f.add("Delegated by", p.RunRef.Name+", call "+p.ToolCallID)
	}
	f.add("Prompt", prompt(r.Spec.Input))
	f.add("Skills", strings.Join(r.Spec.Skills, ", "))
	f.colour("Status", State(r), stateColour(r))
	f.add("Created", age(r.CreationTimestamp.Time, now)+" ago")
	f.add("Took", took(r, now))
	f.add("Turns", fmt.Sprintf("%d of at most %d", r.Status.Turn, r.Spec.Limits.MaxTurns))
	f.add("Requests", requests(r))
	f.add("Tool calls", strconv.Itoa(int(r.Status.ToolCalls)))
	f.add("Tokens", tokens(r.Status.Usage))
	if w := r.Status.Worker; w != nil {
		f.add("Worker", fmt.Sprintf("%s, attempt %d of at most %d", w.Identity, w.Attempt, r.Spec.Limits.MaxAttempts))
	}
	f.add("Failure", failure(r.Status.Failure))
	f.add("Answer begins", r.Status.ResultPreview)
	f.add("Trace", r.Status.TraceID)
	out := f.table.String(paint)
	out += conditions(r.Status.Conditions, []string{api.ConditionAccepted, api.ConditionSucceeded, api.ConditionFinished}, runAdvice, paint)
	out += pending(r, now, paint)
	if s := r.Status.InputSources; s != nil {
		out += "\n" + paint.As(term.Strong, "Messages of the latest request") + "\n" + indent(fmt.Sprintf(
			"%d from the history of %d, %d summaries, %d of runtime context, %d for missing results; %d with skills in front\n",
			s.History, s.HistoryMessageCount, s.Compaction, s.RuntimeContext, s.ToolRepair, s.SkillExpansions))
	}
	title := "Context of the latest request"
	if b := r.Status.ContextBudget; b != nil && b.Dispatched != nil && !*b.Dispatched {
		title = "Context of the request that was refused"
	}
	return out + "\n" + paint.As(term.Strong, title) + "\n" + indent(Budget(r.Status.ContextBudget, paint))
}

// shownPrompt is how many characters of a prompt a description has.
const shownPrompt = 100

func prompt(input *api.RunInput) string {
	switch {
	case input == nil:
		return ""
	case input.ConfigMapKeyRef != nil:
		return "key " + input.ConfigMapKeyRef.Key + " of ConfigMap " + input.ConfigMapKeyRef.Name
	case len(input.Parts) > 0:
		return plural(int64(len(input.Parts)), "part")
	}
	return term.Cut(input.Text, shownPrompt)
}

func took(r *api.AgentRun, now time.Time) string {
	switch {
	case r.Status.StartTime == nil:
		return ""
	case r.Status.CompletionTime == nil:
		return duration.HumanDuration(now.Sub(r.Status.StartTime.Time)) + " so far"
	}
	return duration.HumanDuration(r.Status.CompletionTime.Sub(r.Status.StartTime.Time))
}

func requests(r *api.AgentRun) string {
	text := strconv.Itoa(int(r.Status.ModelRequests))
	if n := r.Status.RequestsWithoutUsage; n > 0 {
		text += fmt.Sprintf(", of %d no usage was reported", n)
	}
	return text
}

func failure(f *api.RunFailure) string {
	if f == nil {
		return ""
	}
	text := f.Class
	if f.HTTPStatus > 0 {
		text += fmt.Sprintf(", HTTP %d", f.HTTPStatus)
	}
	if f.Retryable {
		return text + "; the same prompt may succeed in a new run"
	}
	return text
}

// pending are the calls that wait for a person.
func pending(r *api.AgentRun, now time.Time, paint term.Paint) string {
	if len(r.Status.PendingApprovals) == 0 {
		return ""
	}
	table := term.Table{Headers: []string{"CALL", "TOOL", "DENIED IN"}}
	for _, p := range r.Status.PendingApprovals {
		until := "never"
		if p.ExpiresAt != nil {
			until = duration.HumanDuration(p.ExpiresAt.Sub(now))
		}
		table.Add(p.ToolCallID, p.Tool, until)
	}
	out := "\n" + paint.As(term.Attention, "Calls that wait for a person") + "\n" + indent(table.String(paint))
	if more := int(r.Status.PendingApprovalsTotal) - len(r.Status.PendingApprovals); more > 0 {
		out += fmt.Sprintf("  and %d more\n", more)
	}
	return out + fmt.Sprintf("  kubectl agentloop approve %s -n %s\n", r.Name, r.Namespace)
}

// conditions says what conditions mean and what to do about them.
func conditions(all []metav1.Condition, kinds []string, table map[string]advice, paint term.Paint) string {
	out := "\n" + paint.As(term.Strong, "Conditions") + "\n"
	listed := term.Table{}
	var todo []string
	for _, kind := range kinds {
		c := Condition(all, kind)
		if c == nil {
			listed.Add("  "+kind, "-", "-", "not decided yet")
			continue
		}
		known := table[c.Reason]
		colour := term.Plain
		switch {
		case c.Status == metav1.ConditionTrue && kind != api.ConditionActive && kind != api.ConditionFinished:
			colour = term.Good
		case c.Status == metav1.ConditionFalse && kind != api.ConditionActive && kind != api.ConditionFinished:
			colour = term.Bad
		}
		text := known.means
		if c.Message != "" {
			text = strings.TrimPrefix(text+" ("+c.Message+")", " ")
		}
		listed.AddCells(term.Cell{Text: "  " + kind}, term.Cell{Text: string(c.Status), Colour: colour}, term.Cell{Text: c.Reason}, term.Cell{Text: text})
		if known.do != "" && !slices.Contains(todo, known.do) {
			todo = append(todo, known.do)
		}
	}
	out += listed.String(paint)
	for _, do := range todo {
		out += "  " + paint.As(term.Attention, "What to do:") + " " + do + "\n"
	}
	return out
}

// Outcome is how a run ended, or where it is, in a sentence, and what to do about it.
func Outcome(r *api.AgentRun) (text, do string) {
	c := Condition(r.Status.Conditions, api.ConditionSucceeded)
	if c == nil {
		return "nobody has looked at it yet", ""
	}
	known := runAdvice[c.Reason]
	text = c.Reason
	switch {
	case c.Message != "":
		text += ": " + c.Message
	case known.means != "":
		text += ": " + known.means
	}
	return text, known.do
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// Grouped is a number with its thousands apart.
func Grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
