package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// Log is what an audit needs of the run-event log, archives included. The contract is that of runevent.Log's methods.
type Log interface {
	Read(ctx context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error
	Streams(ctx context.Context, namespace, session string) ([]runevent.Record, error)
}

// Audit is one audit of a session. Its fields are set before Run and not changed.
type Audit struct {
	Log   Log
	Store cas.Store
	// Archives, when not nil, are the session's archive files: each is checked besides what is read through Log.
	Archives cas.Archives
	Scope    cas.Scope
	// Expect is how many entries the agents' streams are known to have had, by agent key.
	Expect map[string]int64
	// Report gets each problem when it is found; its error ends the audit.
	Report func(Problem) error
	// Progress, when not nil, is called from time to time with what was looked at so far.
	Progress func(Summary)

	sum     Summary
	objects *objects
}

// frontier is how many references are gathered before their objects are read, progressEvery how many entries lie between two
// calls of Progress.
const (
	frontier      = 256
	progressEvery = 2000
)

// Run reads everything. An error means that a store did not answer, or that Report failed: the session was then not looked
// at whole.
func (a *Audit) Run(ctx context.Context) (Summary, error) {
	a.sum = Summary{Codes: map[Code]int64{}, Heads: map[string]int64{}}
	a.objects = newObjects(a)
	if err := a.Scope.Validate(); err != nil {
		return a.sum, err
	}
	ends, err := a.Log.Streams(ctx, a.Scope.Namespace, a.Scope.Session)
	if err != nil {
		return a.sum, fmt.Errorf("list streams: %w", err)
	}
	for _, end := range ends {
		if err := a.stream(ctx, end); err != nil {
			return a.sum, err
		}
	}
	if err := a.truncations(); err != nil {
		return a.sum, err
	}
	if err := a.objects.read(ctx); err != nil {
		return a.sum, err
	}
	if err := a.archives(ctx); err != nil {
		return a.sum, err
	}
	return a.sum, a.imports(ctx)
}

// archives checks the archive files, those of entries that the log still has as well.
func (a *Audit) archives(ctx context.Context) error {
	if a.Archives == nil {
		return nil
	}
	return archive.Check(ctx, a.Archives, a.Scope, func(name string, problem error) error {
		a.sum.Archives++
		if problem == nil {
			return nil
		}
		return a.problem(Problem{Code: CodeArchive, Path: name, Message: "The archive file is damaged, cut off, or of a later version; its entries are not read from it."})
	})
}

func (a *Audit) problem(p Problem) error {
	a.sum.Problems++
	a.sum.Codes[p.Code]++
	if err := a.Report(p); err != nil {
		return fmt.Errorf("report a problem: %w", err)
	}
	return nil
}

func nameOf(stream runevent.Stream) string { return string(stream.Class) + "/" + stream.Key }

// truncations compares the streams' lengths with those that are known.
func (a *Audit) truncations() error {
	keys := make([]string, 0, len(a.Expect))
	for key := range a.Expect {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if have, want := a.sum.Heads[key], a.Expect[key]; have < want {
			err := a.problem(Problem{
				Code: CodeTruncated, Stream: string(runevent.ClassRun) + "/" + key, Sequence: have + 1, Last: want,
				Message: fmt.Sprintf("The stream ends with entry %d but is known to have had entry %d: it was cut or restored from an older backup.", have, want),
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// chain is how far a stream was followed.
type chain struct {
	name string
	head runevent.Head
	// known is false behind a gap and behind bytes that cannot be read: the next link cannot be judged.
	known bool
}

// stream reads one stream and looks at what its entries reach.
func (a *Audit) stream(ctx context.Context, end runevent.Record) error {
	a.sum.Streams++
	c := &chain{name: nameOf(end.Stream), known: true}
	err := a.Log.Read(ctx, end.Stream, 0, func(record runevent.Record) error {
		if err := a.entry(c, record); err != nil {
			return err
		}
		if len(a.objects.waiting) < frontier {
			return nil
		}
		return a.objects.read(ctx)
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", c.name, err)
	}
	if c.head.Sequence < end.Head.Sequence {
		if err := a.gap(c, end.Head.Sequence+1); err != nil {
			return err
		}
	}
	if end.Stream.Class == runevent.ClassRun {
		a.sum.Heads[end.Stream.Key] = end.Head.Sequence
	}
	return nil
}

// gap says that the entries before next are missing.
func (a *Audit) gap(c *chain, next int64) error {
	return a.problem(Problem{
		Code: CodeGap, Stream: c.name, Sequence: c.head.Sequence + 1, Last: next - 1,
		Message: fmt.Sprintf("Entries %d to %d are missing, in the log and in the archives.", c.head.Sequence+1, next-1),
	})
}

// entry checks one entry and its place, and collects what it reaches.
func (a *Audit) entry(c *chain, record runevent.Record) error {
	a.sum.Entries++
	a.sum.Bytes += int64(len(record.Raw))
	if a.Progress != nil && a.sum.Entries%progressEvery == 0 {
		a.Progress(a.sum)
	}
	sequence := record.Head.Sequence
	if sequence != c.head.Sequence+1 {
		if err := a.gap(c, sequence); err != nil {
			return err
		}
		c.known = false
	}
	entry, err := runevent.Decode(record.Raw)
	newer := errors.Is(err, runevent.ErrNewerFormat)
	before := c.head
	linked := c.known
	c.head, c.known = record.Head, true
	switch {
	case err != nil && !newer, err == nil && entry.Sequence != sequence, cas.Of(record.Raw) != record.Head.Digest:
		return a.problem(Problem{Code: CodeDamaged, Stream: c.name, Sequence: sequence, Message: "The bytes are no entry, or not the one that belongs there."})
	case linked && entry.Event.Evidence.Prev != before.Digest:
		err := a.problem(Problem{Code: CodeLink, Stream: c.name, Sequence: sequence, Message: "The entry does not name the one before it: one of the two was replaced."})
		if err != nil {
			return err
		}
	}
	if newer {
		return a.problem(Problem{Code: CodeNewEntry, Stream: c.name, Sequence: sequence, Message: "The entry has a version or type that this program does not know; what it refers to was not looked at."})
	}
	f := &finder{from: origin{c.name, sequence}}
	f.event(entry.Event)
	return a.objects.add(f.found)
}
