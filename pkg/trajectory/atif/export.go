package atif

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/trajectory"
)

// Options say what an export is of.
type Options struct {
	// Namespace, Session (its name, empty when the resource is gone) and UID say which session it is.
	Namespace, Session, UID string
	ExportedAt              trajectory.Time
	// Each makes steps, which are written in their order; trajectory.OneByOne when it is nil.
	Each trajectory.Ordered
}

// encode returns the JSON of a value in one line.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return slices.Clip(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}

// Export writes a document for each run that no other one delegated to, one a line, and returns how many documents there are,
// those inside of others included. When it fails, the last line is cut off, or there are fewer lines than each of them says in
// extra.agentloop.export.
func Export(ctx context.Context, contents *trajectory.Contents, opts Options, to io.Writer) (int, error) {
	runs, err := contents.Executions(ctx)
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	if opts.Each == nil {
		opts.Each = trajectory.OneByOne
	}
	x := &export{contents: contents, opts: opts, to: to}
	var roots []*trajectory.Execution
	for _, run := range runs {
		if run.Parent == nil {
			roots = append(roots, run)
		}
	}
	for i, run := range roots {
		x.line = map[string]any{
			"documents": len(roots), "number": i + 1, "exportedAt": opts.ExportedAt, "namespace": opts.Namespace, "session": opts.Session,
			"notices": len(contents.Index().Notices),
		}
		if _, err := x.document(ctx, run); err != nil {
			return x.documents, fmt.Errorf("export run %s: %w", run.UID, err)
		}
		x.raw("\n")
		if err := x.flush(); err != nil {
			return x.documents, fmt.Errorf("export: %w", err)
		}
	}
	return x.documents, nil
}

// export is an export under way. It writes documents piece by piece and remembers the first error.
type export struct {
	contents  *trajectory.Contents
	opts      Options
	to        io.Writer
	buf       bytes.Buffer
	err       error
	documents int
	// line is what the document of the line says about the export.
	line map[string]any
}

// pieceSize is about how many bytes are written at a time.
const pieceSize = 32 << 10

func (x *export) raw(s string) {
	x.buf.WriteString(s)
	if x.buf.Len() >= pieceSize {
		x.err = x.flush()
	}
}

func (x *export) value(v any) {
	raw, err := encode(v)
	if err != nil && x.err == nil {
		x.err = fmt.Errorf("encode: %w", err)
	}
	x.raw(string(raw))
}

func (x *export) member(name string, v any) {
	x.raw(`,"` + name + `":`)
	x.value(v)
}

func (x *export) flush() error {
	if x.err != nil {
		return x.err
	}
	_, err := x.to.Write(x.buf.Bytes())
	x.buf.Reset()
	return err
}

// document writes a run and returns its totals, with the cost of the runs inside of it.
func (x *export) document(ctx context.Context, run *trajectory.Execution) (totals, error) {
	x.documents++
	d := newDocument(x, run)
	x.raw(`{"schema_version":"` + SchemaVersion + `"`)
	x.member("session_id", x.opts.UID)
	x.member("trajectory_id", run.UID)
	agent, err := d.agent(ctx)
	if err != nil {
		return totals{}, err
	}
	x.member("agent", agent)
	x.raw(`,"steps":[`)
	if err := d.steps(ctx); err != nil {
		return totals{}, err
	}
	x.raw("]")
	if err := d.children(ctx); err != nil {
		return totals{}, err
	}
	x.member("final_metrics", d.totals.metrics(d.count))
	if notes := d.notes(); notes != "" {
		x.member("notes", notes)
	}
	x.member("extra", map[string]any{"agentloop": d.extra()})
	x.raw("}")
	return d.totals, x.err
}

// children writes the runs that the run delegated to.
func (d *document) children(ctx context.Context) error {
	if len(d.run.Children) == 0 {
		return nil
	}
	d.x.raw(`,"subagent_trajectories":[`)
	for i, child := range d.run.Children {
		if i > 0 {
			d.x.raw(",")
		}
		spent, err := d.x.document(ctx, child)
		if err != nil {
			return err
		}
		d.totals.pay(spent.cost)
	}
	d.x.raw("]")
	return nil
}

// extra is what the format has no member for.
func (d *document) extra() map[string]any {
	run := d.run
	extra := map[string]any{
		"run": run.Name, "agent": run.Agent, "status": run.Status, "attempts": run.Attempts, "turns": run.Turns, "startedAt": run.StartedAt, "endedAt": run.EndedAt,
	}
	if run.Reason != "" {
		extra["reason"] = run.Reason
	}
	if run.Message != "" {
		extra["message"] = run.Message
	}
	if len(d.unfinished) > 0 {
		extra["unfinished"] = d.unfinished
	}
	if run.Parent == nil {
		extra["export"] = d.x.line
	}
	return extra
}

// notes say in words what is not in the document.
func (d *document) notes() string {
	var notes []string
	note := func(n int, text string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf("%d %s", n, text))
		}
	}
	note(len(d.unfinished), "model requests without a response have no step; they are listed in extra.agentloop.unfinished.")
	note(d.titles, "requests for a title have no step.")
	note(d.lifecycle, "lifecycle records are only in the NDJSON export.")
	note(d.stray, "tool calls have no step: the response that declared them is not there.")
	note(d.unreadable, "steps and calls lack something that is missing or damaged in the store; their extra says what.")
	if d.empty {
		notes = append(notes, "Nothing of this run was recorded that makes a step.")
	}
	return strings.Join(notes, " ")
}

// totals are the sums over what was reported.
type totals struct {
	prompt, completion, cached *int64
	cost                       *big.Rat
	responses, reported        int
}

// add counts a response.
func (t *totals) add(u *message.Usage) {
	t.responses++
	if u == nil || u.Input == nil && u.Output == nil {
		return
	}
	t.reported++
	t.prompt = sum(t.prompt, promptTokens(u))
	t.completion = sum(t.completion, u.Output)
	t.cached = sum(t.cached, u.CacheRead)
	if cost, ok := new(big.Rat).SetString(u.Cost); ok {
		t.pay(cost)
	}
}

func (t *totals) pay(cost *big.Rat) {
	if cost == nil {
		return
	}
	if t.cost == nil {
		t.cost = new(big.Rat)
	}
	t.cost.Add(t.cost, cost)
}

func (t *totals) metrics(steps int) FinalMetrics {
	m := FinalMetrics{
		PromptTokens: t.prompt, CompletionTokens: t.completion, CachedTokens: t.cached, Steps: &steps,
		Extra: map[string]any{"agentloop": map[string]any{"responses": t.responses, "responsesWithUsage": t.reported}},
	}
	if t.cost != nil {
		m.CostUSD = json.Number(decimal(t.cost))
	}
	return m
}

// decimal is an amount of dollars without needless zeros.
func decimal(cost *big.Rat) string {
	s := strings.TrimRight(cost.FloatString(12), "0")
	return strings.TrimSuffix(s, ".")
}

func sum(a, b *int64) *int64 {
	if a == nil || b == nil {
		return or(a, b)
	}
	total := *a + *b
	return &total
}

func or(a, b *int64) *int64 {
	if a == nil {
		return b
	}
	return a
}

// promptTokens are all tokens of the input: the format counts cached ones as part of it.
func promptTokens(u *message.Usage) *int64 {
	if u.Input == nil {
		return nil
	}
	return sum(sum(u.Input, u.CacheRead), u.CacheWrite)
}
