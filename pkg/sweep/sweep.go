package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

var (
	// ErrBusy is returned when the session has a live run or was used meanwhile. Nothing is lost: try again when it rests.
	ErrBusy = errors.New("the session is in use")
	// ErrHistory is returned when the session's events are not whole: what the missing ones refer to is not known.
	ErrHistory = errors.New("the session's events are not whole")
)

// Log is what a sweep needs of the run-event log, archives included. The contract is that of runevent.Log's methods.
type Log interface {
	Read(ctx context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error
	Streams(ctx context.Context, namespace, session string) ([]runevent.Record, error)
}

// Store is a store that can be swept. It must not remember puts or reads.
type Store interface {
	cas.Store
	cas.Aging
}

// Sweep is one sweep of a session. Its fields are set before Run and not changed.
type Sweep struct {
	Log   Log
	Store Store
	Scope cas.Scope
	// Grace is the age from which an object may go: cas.MinGrace or more.
	Grace time.Duration
	// Apply removes what was found. Without it nothing is changed.
	Apply bool
	// Settle is how long a removal rests before it is looked whether the session was used meanwhile, and Sleep waits.
	Settle time.Duration
	Sleep  func(ctx context.Context, d time.Duration) error
	// Report, when not nil, gets each object that nothing refers to; its error ends the sweep.
	Report func(Orphan) error

	stored map[cas.Digest]time.Duration
	marked map[cas.Digest]bool
}

// Orphan is an object that nothing refers to.
type Orphan struct {
	Digest cas.Digest `json:"digest"`
	// AgeSeconds is its age by the store's clock.
	AgeSeconds int64 `json:"ageSeconds"`
}

// Result is what a sweep found and did.
type Result struct {
	// Objects are all that are stored, Referenced those that something refers to, Young those that nothing refers to but are
	// younger than the grace.
	Objects    int `json:"objects"`
	Referenced int `json:"referenced"`
	Young      int `json:"young"`
	Orphans    int `json:"orphans"`
	// Removed were removed, Spared were not: they became young meanwhile, or could not be read.
	Removed int   `json:"removed"`
	Spared  int   `json:"spared"`
	Bytes   int64 `json:"bytes"`
}

// Run sweeps. Objects are listed before events are read, so that what is stored and named meanwhile is never taken for an
// orphan.
func (s *Sweep) Run(ctx context.Context) (Result, error) {
	var result Result
	if s.Grace < cas.MinGrace {
		return result, fmt.Errorf("%w: a grace of %s, the shortest is %s", cas.ErrInvalid, s.Grace, cas.MinGrace)
	}
	if err := s.Scope.Validate(); err != nil {
		return result, err
	}
	ends, err := s.ends(ctx)
	if err != nil {
		return result, err
	}
	if s.Apply {
		if err := idle(ends); err != nil {
			return result, err
		}
	}
	s.stored, s.marked = map[cas.Digest]time.Duration{}, map[cas.Digest]bool{}
	err = s.Store.ListAged(ctx, s.Scope, func(digest cas.Digest, age time.Duration) error {
		s.stored[digest] = age
		return nil
	})
	if err != nil {
		return result, fmt.Errorf("list objects: %w", err)
	}
	for _, end := range ends {
		if err := s.mark(ctx, end); err != nil {
			return result, err
		}
	}
	orphans, err := s.orphans(&result)
	if err != nil || !s.Apply || len(orphans) == 0 {
		return result, err
	}
	if err := s.unchanged(ctx, ends); err != nil {
		return result, err
	}
	return result, s.remove(ctx, ends, orphans, &result)
}

// ends are the ends of the session's streams. A session without any is none: its objects may be of one that is being
// restored.
func (s *Sweep) ends(ctx context.Context) ([]runevent.Record, error) {
	ends, err := s.Log.Streams(ctx, s.Scope.Namespace, s.Scope.Session)
	if err != nil {
		return nil, fmt.Errorf("list streams: %w", err)
	}
	if len(ends) == 0 {
		return nil, fmt.Errorf("%w: the log knows none of them", ErrHistory)
	}
	return ends, nil
}

// idle refuses a session of which a run has not ended.
func idle(ends []runevent.Record) error {
	for _, end := range ends {
		if end.Stream.Class != runevent.ClassRun {
			continue
		}
		entry, err := runevent.Decode(end.Raw)
		if err != nil {
			return fmt.Errorf("%w: the last entry of %s: %w", ErrHistory, end.Stream, err)
		}
		switch entry.Event.Type {
		case runevent.TypeRunFinished, runevent.TypeRunFailed, runevent.TypeRunCancelled:
		default:
			return fmt.Errorf("%w: the latest run of agent %s has not ended", ErrBusy, end.Stream.Key)
		}
	}
	return nil
}

// unchanged refuses a session whose streams have grown.
func (s *Sweep) unchanged(ctx context.Context, before []runevent.Record) error {
	now, err := s.ends(ctx)
	if err != nil {
		return err
	}
	heads := func(ends []runevent.Record) map[runevent.Stream]cas.Digest {
		out := map[runevent.Stream]cas.Digest{}
		for _, end := range ends {
			out[end.Stream] = end.Head.Digest
		}
		return out
	}
	if !maps.Equal(heads(before), heads(now)) {
		return fmt.Errorf("%w: a run began meanwhile", ErrBusy)
	}
	return nil
}

// orphans are the objects that may go, the oldest first.
func (s *Sweep) orphans(result *Result) ([]cas.Digest, error) {
	result.Objects = len(s.stored)
	var orphans []cas.Digest
	for digest, age := range s.stored {
		switch {
		case s.marked[digest]:
			result.Referenced++
		case age < s.Grace:
			result.Young++
		default:
			orphans = append(orphans, digest)
		}
	}
	slices.SortFunc(orphans, func(a, b cas.Digest) int {
		return cmp.Or(cmp.Compare(s.stored[b], s.stored[a]), cmp.Compare(a.Hex(), b.Hex()))
	})
	result.Orphans = len(orphans)
	for _, digest := range orphans {
		if s.Report == nil {
			break
		}
		if err := s.Report(Orphan{digest, int64(s.stored[digest].Seconds())}); err != nil {
			return nil, fmt.Errorf("report an object: %w", err)
		}
	}
	return orphans, nil
}

// batchBytes bounds what is removed before it is looked whether the session was used, in bytes that are kept until then.
const batchBytes = 64 << 20

// kept is an object that was removed, as long as it may have to be put back.
type kept struct {
	digest cas.Digest
	data   []byte
}

// remove removes orphans, batch by batch.
func (s *Sweep) remove(ctx context.Context, ends []runevent.Record, orphans []cas.Digest, result *Result) error {
	for len(orphans) > 0 {
		var batch []kept
		size := 0
		for len(orphans) > 0 && size < batchBytes {
			one, err := s.look(ctx, orphans[0])
			if err != nil {
				return errors.Join(err, s.restore(ctx, batch))
			}
			orphans = orphans[1:]
			if one == nil {
				result.Spared++
				continue
			}
			// The context ends the call, not its effect: what may be gone is among what may be put back.
			batch = append(batch, *one)
			size += len(one.data)
			if err := s.Store.Remove(ctx, s.Scope, one.digest); err != nil {
				return errors.Join(fmt.Errorf("remove objects: %w", err), s.restore(ctx, batch))
			}
		}
		err := s.Sleep(ctx, s.Settle)
		if err == nil {
			err = s.unchanged(ctx, ends)
		}
		if err != nil {
			return errors.Join(err, s.restore(ctx, batch))
		}
		result.Removed += len(batch)
		result.Bytes += int64(size)
	}
	return nil
}

// look reads an orphan once more; nil when somebody has put it again, and when its bytes are damaged: whoever has that object
// to put repairs it.
func (s *Sweep) look(ctx context.Context, digest cas.Digest) (*kept, error) {
	data, age, err := s.Store.GetAged(ctx, s.Scope, cas.Ref{Digest: digest})
	switch {
	case errors.Is(err, cas.ErrNotFound), errors.Is(err, cas.ErrCorrupt), errors.Is(err, cas.ErrTooLarge), err == nil && age < s.Grace:
		return nil, nil //nolint:nilnil // it stays
	case err != nil:
		return nil, fmt.Errorf("read an object: %w", err)
	}
	return &kept{digest, data}, nil
}

// restoreTimeout bounds the putting back of one batch, which a cancelled context does not keep from being tried.
const restoreTimeout = 2 * time.Minute

// restore puts a batch back.
func (s *Sweep) restore(ctx context.Context, batch []kept) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
	defer cancel()
	for _, one := range batch {
		if _, err := s.Store.Put(ctx, s.Scope, cas.MediaBlob, one.data); err != nil {
			return fmt.Errorf("put %s back: %w", one.digest, err)
		}
	}
	return nil
}
