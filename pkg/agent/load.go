package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// ErrHistoryCorrupt is returned when a stream's entries do not follow each other, or name what is not there.
var ErrHistoryCorrupt = errors.New("session history is corrupt")

// LoadState opens one agent stream: its last entry names the latest committed state, and the entries since move it on.
// The cost does not grow with the session's age. The returned state's Head is the stream's end.
func LoadState(ctx context.Context, log runevent.Log, store cas.Store, stream runevent.Stream) (session.State, error) {
	last, err := log.Last(ctx, stream)
	if err != nil {
		return session.State{}, fmt.Errorf("read the last entry: %w", err)
	}
	state := session.Empty(stream.Key)
	if last.Head.Sequence == 0 {
		return state, nil
	}
	entry, err := runevent.Decode(last.Raw)
	if err != nil {
		return session.State{}, fmt.Errorf("entry #%d: %w", last.Head.Sequence, err)
	}
	if ref := entry.Event.Evidence.StateRef; ref != nil {
		state, err = loadCommitted(ctx, store, stream, *ref)
		if err != nil {
			return session.State{}, err
		}
	}
	return state, applyTail(ctx, log, store, stream, &state)
}

func loadCommitted(ctx context.Context, store cas.Store, stream runevent.Stream, ref cas.Ref) (session.State, error) {
	scope := cas.Scope{Namespace: stream.Namespace, Session: stream.Session}
	raw, err := store.Get(ctx, scope, ref)
	if err != nil {
		return session.State{}, fmt.Errorf("read the committed state: %w", err)
	}
	committed, err := session.DecodeObject[session.AgentState](raw)
	if err != nil {
		return session.State{}, err
	}
	history, err := cas.ReadList(ctx, store, scope, committed.History)
	if err != nil {
		return session.State{}, fmt.Errorf("read the committed history: %w", err)
	}
	return session.FromState(committed, ref, history), nil
}

// Advance moves a loaded state on to the stream's present end, reading only what was appended since.
func Advance(ctx context.Context, log runevent.Log, store cas.Store, stream runevent.Stream, state *session.State) error {
	return log.Read(ctx, stream, state.Head.Sequence, func(record runevent.Record) error {
		entry, err := next(state.Head, record)
		if err != nil {
			return err
		}
		if err := follow(ctx, store, stream, state, entry); err != nil {
			return err
		}
		if err := state.Apply(entry, record.Head); err != nil {
			return fmt.Errorf("%w: %w", ErrHistoryCorrupt, err)
		}
		return nil
	})
}

// next decodes the entry after head.
func next(head runevent.Head, record runevent.Record) (runevent.Entry, error) {
	entry, err := runevent.DecodeNext(head, record)
	if errors.Is(err, runevent.ErrNewerFormat) {
		return entry, fmt.Errorf("entry #%d: %w", record.Head.Sequence, err)
	}
	if err != nil {
		return entry, fmt.Errorf("%w: %w", ErrHistoryCorrupt, err)
	}
	return entry, nil
}

// first decodes an entry whose predecessor is not known.
func first(record runevent.Record) (runevent.Entry, error) {
	entry, err := runevent.Decode(record.Raw)
	if err != nil {
		return entry, fmt.Errorf("entry #%d: %w", record.Head.Sequence, err)
	}
	return entry, nil
}

// follow loads the state that a commit names, unless it is the one that the tail began at.
func follow(ctx context.Context, store cas.Store, stream runevent.Stream, state *session.State, entry runevent.Entry) error {
	named := entry.Event.Evidence.StateRef
	if entry.Event.Kind != runevent.KindStateCommitted || named == nil {
		return nil
	}
	if state.StateRef != nil && state.StateRef.Digest == named.Digest {
		return nil
	}
	if state.Run == nil {
		return fmt.Errorf("%w: entry #%d commits for no run", ErrHistoryCorrupt, entry.Sequence)
	}
	raw, err := store.Get(ctx, cas.Scope{Namespace: stream.Namespace, Session: stream.Session}, *named)
	if err != nil {
		return fmt.Errorf("read the committed state: %w", err)
	}
	committed, err := session.DecodeObject[session.AgentState](raw)
	if err != nil {
		return err
	}
	state.Commit(committed, *named)
	return nil
}

// applyTail folds every entry after the state. The first of them need not chain to a loaded one, so the chain is
// checked from the second on.
func applyTail(ctx context.Context, log runevent.Log, store cas.Store, stream runevent.Stream, state *session.State) error {
	checked := state.Head
	return log.Read(ctx, stream, state.Head.Sequence, func(record runevent.Record) error {
		var entry runevent.Entry
		var err error
		if checked.Digest.IsZero() && checked.Sequence > 0 {
			entry, err = first(record)
		} else {
			entry, err = next(checked, record)
		}
		if err != nil {
			return err
		}
		checked = record.Head
		if err := follow(ctx, store, stream, state, entry); err != nil {
			return err
		}
		if err := state.Apply(entry, record.Head); err != nil {
			return fmt.Errorf("%w: %w", ErrHistoryCorrupt, err)
		}
		return nil
	})
}

// object reads and decodes one object of the run's session.
func object[T any](ctx context.Context, l *loop, ref cas.Ref) (T, error) {
	raw, err := l.body(ctx, ref)
	if err != nil {
		var zero T
		return zero, err
	}
	return session.DecodeObject[T](raw)
}
