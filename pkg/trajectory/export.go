package trajectory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
)

// ExportVersion is the version of the export format; see docs/format/export.md.
const ExportVersion = 1

// Header is what an export says about itself before its indexes.
type Header struct {
	// Session is the session's description as JSON.
	Session any
	// ExportedAt is the time of the export.
	ExportedAt Time
}

// Ordered calls make for each number from 0 to n-1, as many at once as it likes, and hands what they return to use, one
// after the other and in the order of the numbers. It ends with the first error, and after all calls have ended.
type Ordered func(ctx context.Context, n int, make func(ctx context.Context, i int) ([]byte, error), use func([]byte) error) error

// OneByOne makes a thing when the one before was used.
func OneByOne(ctx context.Context, n int, make func(ctx context.Context, i int) ([]byte, error), use func([]byte) error) error {
	for i := range n {
		made, err := make(ctx, i)
		if err != nil {
			return err
		}
		if err := use(made); err != nil {
			return err
		}
	}
	return nil
}

// Export writes a session as NDJSON: a line with the indexes, a line for each entry, and a line that says that it is
// complete. It holds as many entries at a time as each makes at once, besides the index. When it fails, the last line is
// missing: whoever reads it knows that the rest is. It returns the number of entries written.
func (r *Reader) Export(ctx context.Context, ix *Index, head Header, each Ordered, to io.Writer) (int, error) {
	sum := sha256.New()
	out := io.MultiWriter(to, sum)
	if err := ix.writeHeader(out, head); err != nil {
		return 0, fmt.Errorf("export header: %w", err)
	}
	records := 0
	shared := r.whole(ix)
	defer shared.close()
	line := func(ctx context.Context, i int) ([]byte, error) {
		line, err := r.exportEntry(ctx, ix, ix.listed[i], shared)
		if err != nil {
			return nil, fmt.Errorf("export entry %d: %w", i, err)
		}
		return line, nil
	}
	write := func(line []byte) error {
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("export entry %d: %w", records, err)
		}
		linesFor(ix.listed[records]).Put(&line)
		records++
		return nil
	}
	if err := each(ctx, len(ix.listed), line, write); err != nil {
		return records, err
	}
	last, err := encode(struct {
		Type    string `json:"type"`
		Records int    `json:"records"`
		SHA256  string `json:"sha256"`
	}{"complete", records, hex.EncodeToString(sum.Sum(nil))})
	if err != nil {
		return records, err
	}
	if _, err := to.Write(append(last, '\n')); err != nil {
		return records, fmt.Errorf("export: %w", err)
	}
	return records, nil
}

func (r *Reader) exportEntry(ctx context.Context, ix *Index, n *node, shared *window) ([]byte, error) {
	d := &detail{reader: r, index: ix, node: n, window: shared}
	if err := d.fill(ctx); err != nil {
		return nil, err
	}
	b := linesFor(n).Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	line, err := d.appendTo(append((*b)[:0], `{"type":"entry"`...))
	return append(line, '\n'), err
}

// inputLines and lines are the buffers of lines that were written: there are as many as lines are made at once. Those of
// model inputs are much longer, and would all become as long as one if they were the same.
var inputLines, lines = sync.Pool{New: func() any { return new([]byte) }}, sync.Pool{New: func() any { return new([]byte) }}

func linesFor(n *node) *sync.Pool {
	if n.Type == TypeModelInput {
		return &inputLines
	}
	return &lines
}

// writeHeader writes the first line piece by piece: the indexes of a long session are not held a second time.
func (ix *Index) writeHeader(out io.Writer, head Header) error {
	w := &pieces{to: out}
	w.raw(`{"type":"trajectory","version":1`)
	w.member("session", head.Session)
	w.member("exportedAt", head.ExportedAt)
	w.member("agents", nonNil(ix.Agents))
	w.member("runs", ix.AllRuns())
	w.member("notices", nonNil(ix.Notices))
	w.member("realTime", ix.RealTime)
	w.member("counts", ix.Counts)
	w.member("head", nonNil(ix.Head))
	w.entries("entries", ix.listed[:ix.timed])
	w.entries("untimed", ix.listed[ix.timed:])
	w.entries("historicalEntries", ix.listed[ix.timed:])
	w.raw("}\n")
	w.flush()
	return w.err
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// pieces writes a JSON object member by member, some at a time.
type pieces struct {
	writer
	to io.Writer
}

const pieceSize = 32 << 10

func (w *pieces) entries(name string, nodes []*node) {
	w.list(name, len(nodes), func(i int) {
		w.entry(&nodes[i].Entry)
		if len(w.out) >= pieceSize {
			w.flush()
		}
	})
}

func (w *pieces) flush() {
	if w.err == nil {
		_, w.err = w.to.Write(w.out)
	}
	w.out = w.out[:0]
}
