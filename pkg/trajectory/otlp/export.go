package otlp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/agentloop/agentloop/pkg/trajectory"
)

// Options say what an export is of.
type Options struct {
	// Namespace, Session (its name, empty when the resource is gone) and UID say which session it is.
	Namespace, Session, UID string
	ExportedAt              trajectory.Time
	// Content says that prompts, messages, arguments and results are written, too.
	Content bool
	// Each makes spans, which are written in their order; trajectory.OneByOne when it is nil.
	Each trajectory.Ordered
}

// batchSize is about how many bytes of spans are put into one line.
const batchSize = 128 << 10

// Export writes the spans of a trajectory, run by run, and returns how many there were. When it fails, fewer spans were written
// than each line's agentloop.export.spans says.
func Export(ctx context.Context, contents *trajectory.Contents, opts Options, to io.Writer) (int, error) {
	runs, err := contents.Executions(ctx)
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	if opts.Each == nil {
		opts.Each = trajectory.OneByOne
	}
	x := &export{contents: contents, opts: opts, to: to}
	var total, untimed int64
	for _, run := range runs {
		for kind, n := range spansOf(run) {
			if kind {
				total += n
				continue
			}
			untimed += n
		}
	}
	x.describe(total, untimed)
	for _, run := range runs {
		if err := x.run(ctx, run); err != nil {
			return x.written, fmt.Errorf("export run %s: %w", run.UID, err)
		}
	}
	if x.written == 0 { // a session without spans still says so
		x.force = true
	}
	if err := x.flush(); err != nil {
		return x.written, fmt.Errorf("export: %w", err)
	}
	return x.written, nil
}

// spansOf counts the spans that a run has (true) and the entries that would have one if their time was known (false).
func spansOf(run *trajectory.Execution) map[bool]int64 {
	counts := map[bool]int64{run.StartedAt != 0: 1}
	for entry := range run.Entries() {
		if spanned(entry) {
			counts[entry.CapturedAt != 0 && run.StartedAt != 0]++
		}
	}
	return counts
}

// spanned says whether entries of the kind have spans of their own.
func spanned(entry *trajectory.Entry) bool {
	switch entry.Type {
	case trajectory.TypeModelInput, trajectory.TypeTool, trajectory.TypeMCP:
		return true
	}
	return false
}

// export is an export under way.
type export struct {
	contents *trajectory.Contents
	opts     Options
	to       io.Writer
	resource []attribute
	batch    [][]byte
	size     int
	// line is used again for one line after the other.
	line    []byte
	written int
	force   bool
}

// describe makes the resource, which every line has: whoever finds fewer spans than it says knows that some are missing.
func (x *export) describe(total, untimed int64) {
	var a attributes
	a.text(attrServiceName, "agentloop")
	a.text(attrK8sNamespace, x.opts.Namespace)
	a.text(ownSessionUID, x.opts.UID)
	a.text(ownSessionName, x.opts.Session)
	a.number(ownExportedAt, int64(x.opts.ExportedAt))
	a.number(ownSpans, total)
	a.number(ownUntimed, untimed)
	a.number(ownNotices, int64(len(x.contents.Index().Notices)))
	a.truth(ownContent, x.opts.Content)
	x.resource = a
}

// put adds a span to the line in the making.
func (x *export) put(raw []byte) error {
	x.batch = append(x.batch, raw)
	x.size += len(raw)
	x.written++
	if x.size < batchSize {
		return nil
	}
	return x.flush()
}

// noSpans is where the spans of a line stand. In a text its quotes would be escaped.
var noSpans = []byte(`"spans":[]`)

// flush writes the line. The spans were encoded when they were made, and are not read once more.
func (x *export) flush() error {
	if len(x.batch) == 0 && !x.force {
		return nil
	}
	line, err := encode(request{[]resourceSpans{{
		Resource: resource{x.resource}, SchemaURL: SchemaURL,
		ScopeSpans: []scopeSpans{{Scope: scope{ScopeName, MappingVersion}, Spans: []json.RawMessage{}, SchemaURL: SchemaURL}},
	}}})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	before, after, _ := bytes.Cut(line, noSpans)
	x.line = append(append(x.line[:0], before...), bytes.TrimSuffix(noSpans, []byte("]"))...)
	for i, span := range x.batch {
		if i > 0 {
			x.line = append(x.line, ',')
		}
		x.line = append(x.line, span...)
	}
	x.line = append(append(append(x.line, ']'), after...), '\n')
	clear(x.batch)
	x.batch, x.size = x.batch[:0], 0
	_, err = x.to.Write(x.line)
	return err
}

// traceID is the trace of a run and of whatever it delegated: that of the run at the top.
func traceID(run *trajectory.Execution) string {
	for run.Parent != nil {
		run = run.Parent
	}
	return id("trace", run.Agent, run.UID, 16)
}

func runSpan(run *trajectory.Execution) string { return id("run", run.Agent, run.UID, 8) }

func (x *export) entrySpan(entryID string) string { return id("entry", x.opts.UID, entryID, 8) }

// id makes an id of n bytes out of what it stands for. It is never zero, which OTLP takes for none.
func id(kind, owner, name string, n int) string {
	sum := sha256.Sum256([]byte("agentloop/" + kind + "/" + owner + "/" + name))
	sum[0] |= 1
	return hex.EncodeToString(sum[:n])
}
