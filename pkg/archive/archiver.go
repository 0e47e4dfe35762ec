package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// ErrHistory is returned when the log and the archives together do not have what comes next of a stream, or not what
// belongs there. Nothing of it is archived or removed then.
var ErrHistory = errors.New("history is not whole")

// Trimmer is what a log must be able to do besides. Trim removes the entries of a stream up to the one numbered through, which
// must not be its last one; removing them again is a success.
type Trimmer interface {
	Trim(ctx context.Context, stream runevent.Stream, through int64) error
}

// Archiver makes the archives of sessions. It may be interrupted anywhere and called again; use one at a time for a session.
type Archiver struct {
	// Log is the log itself, not one that reads archives as well.
	Log      runevent.Log
	Trimmer  Trimmer
	Store    cas.Store
	Archives cas.Archives
}

// Result is what a call has done.
type Result struct {
	// Files are the names of the files that were written, Entries how many entries they have.
	Files   []string `json:"files"`
	Entries int64    `json:"entries"`
	// Removed is how many entries were removed from the log.
	Removed int64 `json:"removed"`
	// Problems are files that could not be used.
	Problems int `json:"problems"`
}

// Session archives the events of the session's runs that have ended, as far as they are not. With remove it then removes
// from the log what the files have: what they hold is read back and compared first.
func (a *Archiver) Session(ctx context.Context, scope cas.Scope, remove bool) (Result, error) {
	w := &work{Archiver: a, scope: scope, catalogue: newCatalogue()}
	if err := w.catalogue.refresh(ctx, a.Archives, scope, a.open); err != nil {
		return w.result, err
	}
	w.result.Problems = len(w.catalogue.problems())
	ends, err := a.Log.Streams(ctx, scope.Namespace, scope.Session)
	if err != nil {
		return w.result, fmt.Errorf("list streams: %w", err)
	}
	w.outputs(ends)
	for _, end := range ends {
		if end.Stream.Class != runevent.ClassRun {
			continue
		}
		if err := w.stream(ctx, end); err != nil {
			return w.result, err
		}
	}
	if err := w.late(ctx); err != nil {
		return w.result, err
	}
	if !remove {
		return w.result, nil
	}
	for _, end := range ends {
		if err := w.trim(ctx, end); err != nil {
			return w.result, err
		}
	}
	return w.result, nil
}

func (a *Archiver) open(ctx context.Context, scope cas.Scope, name string) (*File, error) {
	return read(ctx, a.Archives, scope, name)
}

// work is one call for one session.
type work struct {
	*Archiver
	scope     cas.Scope
	catalogue *catalogue
	// printed are the ends of tool-output streams by the run that they belong to.
	printed map[string][]runevent.Record
	result  Result
	// file is the one that is being filled.
	file *File
}

// outputs sorts the tool-output streams by their runs. One whose last entry cannot be read stays in the log.
func (w *work) outputs(ends []runevent.Record) {
	w.printed = map[string][]runevent.Record{}
	for _, end := range ends {
		if end.Stream.Class != runevent.ClassOut {
			continue
		}
		entry, err := runevent.Decode(end.Raw)
		if err != nil {
			continue
		}
		run := entry.Event.Evidence.AgentRunID
		w.printed[run] = append(w.printed[run], end)
	}
}

// terminal says whether an entry ends its run.
func terminal(t runevent.Type) bool {
	return t == runevent.TypeRunFinished || t == runevent.TypeRunFailed || t == runevent.TypeRunCancelled
}

// stream archives the runs of one agent that have ended. Each file begins behind what the files have by then: what was
// archived before and is still good is not written again.
func (w *work) stream(ctx context.Context, end runevent.Record) error {
	from := w.catalogue.covered(end.Stream)
	if from.Sequence >= end.Head.Sequence {
		return nil
	}
	ended, err := w.lastEnded(ctx, end.Stream, from)
	for err == nil && from.Sequence < ended {
		if err = w.fill(ctx, end.Stream, from, ended); err == nil {
			from = w.catalogue.covered(end.Stream)
		}
	}
	if err != nil {
		return fmt.Errorf("archive %s: %w", end.Stream, err)
	}
	return nil
}

// fill writes one file with the entries behind from, up to the end of a run.
func (w *work) fill(ctx context.Context, stream runevent.Stream, from runevent.Head, ended int64) error {
	w.file = &File{Scope: w.scope}
	before, last := from, false
	err := w.Log.Read(ctx, stream, from.Sequence, func(record runevent.Record) error {
		entry, err := next(before, record)
		if err != nil {
			return err
		}
		w.file.Run = entry.Event.Evidence.AgentRunID
		w.file.add(before, record)
		before = record.Head
		last = terminal(entry.Event.Type)
		if last || w.full() || record.Head.Sequence == ended {
			return errEnough
		}
		return nil
	})
	switch {
	case err == nil:
		return fmt.Errorf("%w: the log ends before entry %d", ErrHistory, ended)
	case !errors.Is(err, errEnough):
		return err
	case last:
		return w.finish(ctx)
	}
	return w.put(ctx)
}

// errEnough ends a read early.
var errEnough = errors.New("enough")

// next decodes the entry behind a head, which must be the one that belongs there.
func next(before runevent.Head, record runevent.Record) (runevent.Entry, error) {
	entry, err := runevent.DecodeNext(before, record)
	if errors.Is(err, runevent.ErrNewerFormat) {
		return entry, fmt.Errorf("entry %d: %w", record.Head.Sequence, err)
	}
	if err != nil {
		return entry, fmt.Errorf("%w: %w", ErrHistory, err)
	}
	return entry, nil
}

// lastEnded is the sequence of the last entry behind from that ends a run; 0 for none.
func (w *work) lastEnded(ctx context.Context, stream runevent.Stream, from runevent.Head) (int64, error) {
	var last int64
	before := from
	err := w.Log.Read(ctx, stream, from.Sequence, func(record runevent.Record) error {
		entry, err := next(before, record)
		if err != nil {
			return err
		}
		if before = record.Head; terminal(entry.Event.Type) {
			last = record.Head.Sequence
		}
		return nil
	})
	if err != nil && last == 0 { // what comes behind an end may wait
		return 0, err
	}
	return last, nil
}

func (w *work) full() bool {
	return w.file.bytes >= maxEntries || len(w.file.Stretches) >= maxStretches
}

// finish adds what the run's tools printed and writes the file.
func (w *work) finish(ctx context.Context) error {
	for _, end := range w.printed[w.file.Run] {
		if err := w.print(ctx, end); err != nil {
			return err
		}
	}
	delete(w.printed, w.file.Run)
	return w.put(ctx)
}

// print adds one tool-output stream, as far as no file has it.
func (w *work) print(ctx context.Context, end runevent.Record) error {
	before := w.catalogue.covered(end.Stream)
	if before.Sequence >= end.Head.Sequence {
		return nil
	}
	return w.Log.Read(ctx, end.Stream, before.Sequence, func(record runevent.Record) error {
		if err := runevent.Verify(before, record); err != nil {
			return fmt.Errorf("%s: %w: %w", end.Stream, ErrHistory, err)
		}
		if w.full() {
			run := w.file.Run
			if err := w.put(ctx); err != nil {
				return err
			}
			w.file.Run = run
		}
		w.file.add(before, record)
		before = record.Head
		return nil
	})
}

// late adds what tools of archived runs printed after that.
func (w *work) late(ctx context.Context) error {
	archived := w.catalogue.runs()
	runs := make([]string, 0, len(w.printed))
	for run := range w.printed {
		if archived[run] {
			runs = append(runs, run)
		}
	}
	slices.SortFunc(runs, cmp.Compare)
	for _, run := range runs {
		w.file = &File{Scope: w.scope, Run: run}
		if err := w.finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// put writes the file, reads it back, and begins another one.
func (w *work) put(ctx context.Context) error {
	file := w.file
	w.file = &File{Scope: w.scope}
	if len(file.Stretches) == 0 {
		return nil
	}
	name := w.catalogue.name(file.Run)
	data, err := Encode(file)
	if err != nil {
		return err
	}
	if err := w.Archives.PutArchive(ctx, w.scope, name, data); err != nil {
		return err
	}
	stored, err := w.open(ctx, w.scope, name)
	if err != nil {
		return fmt.Errorf("read back what was written: %w", err)
	}
	if !slices.Equal(stored.Stretches, file.Stretches) || stored.Run != file.Run {
		return fmt.Errorf("read back what was written: %w: %s holds something else", ErrDamaged, name)
	}
	w.catalogue.mu.Lock()
	w.catalogue.add(name, stored)
	w.catalogue.mu.Unlock()
	w.result.Files = append(w.result.Files, name)
	for _, records := range file.Records {
		w.result.Entries += int64(len(records))
	}
	return nil
}

// trim removes from the log what the files have of a stream, but for its last entry and what opening the session reads.
func (w *work) trim(ctx context.Context, end runevent.Record) error {
	through, err := w.removable(ctx, end)
	if err != nil || through == 0 {
		return err
	}
	from, err := w.first(ctx, end.Stream)
	if err != nil || from > through {
		return err
	}
	if err := w.compare(ctx, end.Stream, from, through); err != nil {
		return fmt.Errorf("nothing was removed of %s: %w", end.Stream, err)
	}
	if err := w.Trimmer.Trim(ctx, end.Stream, through); err != nil {
		return fmt.Errorf("remove archived entries: %w", err)
	}
	w.result.Removed += through - from + 1
	return nil
}

// removable is the last entry that may go.
func (w *work) removable(ctx context.Context, end runevent.Record) (int64, error) {
	through := min(w.catalogue.covered(end.Stream).Sequence, end.Head.Sequence-1)
	if end.Stream.Class != runevent.ClassRun || through <= 0 {
		return max(through, 0), nil
	}
	entry, err := runevent.Decode(end.Raw)
	if err != nil {
		return 0, fmt.Errorf("last entry of %s: %w", end.Stream, err)
	}
	ref := entry.Event.Evidence.StateRef
	if ref == nil {
		return 0, nil // opening the session reads all of it
	}
	raw, err := w.Store.Get(ctx, w.scope, *ref)
	if err != nil {
		return 0, fmt.Errorf("committed state of %s: %w", end.Stream, err)
	}
	state, err := session.DecodeObject[session.AgentState](raw)
	if err != nil {
		return 0, fmt.Errorf("committed state of %s: %w", end.Stream, err)
	}
	return min(through, state.LastSequence), nil
}

// first is the sequence of the first entry that the log has.
func (w *work) first(ctx context.Context, stream runevent.Stream) (int64, error) {
	var first int64
	err := w.Log.Read(ctx, stream, 0, func(record runevent.Record) error {
		first = record.Head.Sequence
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return 0, fmt.Errorf("first entry of %s: %w", stream, err)
	}
	return first, nil
}

// compare reads the files once more, and every entry in them that is still in the log.
func (w *work) compare(ctx context.Context, stream runevent.Stream, from, through int64) error {
	kept := map[string]*File{} // the one that was read last
	sequence := from
	for _, p := range w.catalogue.between(stream, from, through) {
		if p.Last < sequence || sequence > through {
			continue // another file has them
		}
		file := kept[p.file]
		if file == nil {
			clear(kept)
			var err error
			if file, err = w.open(ctx, w.scope, p.file); err != nil {
				return err
			}
			kept[p.file] = file
		}
		if p.number >= len(file.Stretches) || file.Stretches[p.number] != p.Stretch || p.First > sequence {
			return fmt.Errorf("%w: %s does not hold what it did", ErrDamaged, p.file)
		}
		last := min(p.Last, through)
		if err := w.same(ctx, stream, file.Records[p.number][sequence-p.First:last-p.First+1]); err != nil {
			return err
		}
		sequence = last + 1
	}
	if sequence <= through {
		return fmt.Errorf("%w: entry %d is in no file", ErrHistory, sequence)
	}
	return nil
}

// same says whether the log has exactly these entries in their place.
func (w *work) same(ctx context.Context, stream runevent.Stream, archived []runevent.Record) error {
	matched := 0
	err := w.Log.Read(ctx, stream, archived[0].Head.Sequence-1, func(record runevent.Record) error {
		if matched == len(archived) {
			return errEnough
		}
		want := archived[matched].Head
		if record.Head.Sequence != want.Sequence || record.Head.Digest != want.Digest {
			return fmt.Errorf("%w: the log has entry %d (%s) where the file has entry %d (%s)",
				ErrHistory, record.Head.Sequence, record.Head.Digest, want.Sequence, want.Digest)
		}
		matched++
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, errEnough):
		return err
	case matched < len(archived):
		return fmt.Errorf("%w: the log ends before entry %d", ErrHistory, archived[matched].Head.Sequence)
	}
	return nil
}
