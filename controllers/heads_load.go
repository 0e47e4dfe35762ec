package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// readTimeout bounds one read of a stream's end, replayTimeout that of a whole stream.
const (
	readTimeout   = 20 * time.Second
	replayTimeout = 2 * time.Minute
)

// reading is one read of a stream: what it goes on from, and what it finds.
type reading struct {
	*Heads
	stream  runevent.Stream
	content Content
	// before are the facts so far, past the ended runs that are asked about.
	before Facts
	past   []string
	// state and context are those of tracked, before and after.
	state   *session.State
	context cas.Digest
	facts   Facts
	ended   map[string]Facts
}

// damaged says whether err means that what is stored cannot be used, however often it is read.
func damaged(err error) bool {
	for _, final := range []error{
		agent.ErrHistoryCorrupt, cas.ErrCorrupt, cas.ErrNotFound, cas.ErrInvalid, cas.ErrTooLarge, session.ErrFormat,
		runevent.ErrNewerFormat, runevent.ErrDamaged, runevent.ErrGap, runevent.ErrLink, runevent.ErrInvalid,
	} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// load reads what is new of a stream. Without the stream's state nothing is new; without what the state names, the state
// is.
func (r *reading) load(ctx context.Context) (err error) {
	defer func() {
		if errors.Is(err, errPanicked) {
			r.facts, r.state = r.before, nil
			r.facts.Unavailable = true
		}
	}()
	defer contained(r.Logger, r.stream, &err)
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r.facts = r.before
	state, err := r.advance(bounded)
	switch {
	case err != nil && damaged(err):
		r.facts.Known, r.facts.Corrupt, r.facts.Unavailable, r.facts.ReadAt, r.state = true, true, false, began, nil
		return err
	case err != nil:
		r.facts.Unavailable = true
		return err
	}
	next := Facts{Known: true, ReadAt: began, State: slim(state), Messages: len(state.History), Record: r.before.Record}
	seen, err := r.named(bounded, &next, r.context)
	if err != nil && !damaged(err) {
		r.facts.Unavailable = true
		return err
	}
	next.Corrupt = err != nil
	r.facts, r.context, r.state = next, seen, nil
	if state.Live() {
		r.state = &state
	}
	if err != nil || len(r.past) == 0 {
		return err
	}
	return r.replay(ctx)
}

// replay reads the whole stream for the ends of earlier runs.
func (r *reading) replay(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	found := map[string]Facts{}
	state := session.Empty(r.stream.Key)
	look := func() {
		if state.Run == nil || state.Run.Terminal == nil {
			return
		}
		for _, uid := range r.past {
			if _, known := found[uid]; !known && uid == state.Run.UID {
				found[uid] = Facts{Known: true, ReadAt: r.facts.ReadAt, State: slim(state), Messages: len(state.History)}
			}
		}
	}
	err := agent.Advance(bounded, observed{r.Log, look}, r.Store, r.stream, &state)
	if err != nil && !damaged(err) {
		return fmt.Errorf("read the ends of earlier runs: %w", err)
	}
	r.ended = map[string]Facts{}
	for _, uid := range r.past {
		facts, known := found[uid]
		if !known {
			facts = Facts{Known: true, Corrupt: true}
		} else if _, err := r.named(bounded, &facts, cas.Digest{}); err != nil && !damaged(err) {
			continue // it is asked for again
		}
		r.ended[uid] = facts
	}
	return nil
}

// observed is a log that calls after behind every entry that was read.
type observed struct {
	runevent.Log
	after func()
}

// Read implements runevent.Log.
func (o observed) Read(ctx context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error {
	return o.Log.Read(ctx, stream, after, func(record runevent.Record) error {
		if err := fn(record); err != nil {
			return err
		}
		o.after()
		return nil
	})
}

// named reads the few objects that status needs. seen is the context whose record is there already.
func (r *reading) named(ctx context.Context, next *Facts, seen cas.Digest) (cas.Digest, error) {
	if err := r.session(ctx, next); err != nil {
		return seen, err
	}
	run := next.State.Run
	if run == nil || run.LastContext == nil {
		next.Record, seen = nil, cas.Digest{}
	}
	if run == nil {
		return seen, nil
	}
	var err error
	if run.LastContext != nil && run.LastContext.Digest != seen {
		next.Record = nil
		if next.Record, err = r.record(ctx, *run.LastContext); err != nil {
			return cas.Digest{}, err
		}
		seen = run.LastContext.Digest
	}
	if run.Terminal == nil {
		return seen, nil
	}
	if ref := run.Terminal.Record; ref != nil {
		if next.Refused, err = r.record(ctx, *ref); err != nil {
			return seen, err
		}
	}
	if ref := run.Terminal.Result; ref != nil && r.content.Preview {
		next.Preview, err = r.answer(ctx, *ref)
	}
	return seen, err
}

// session reads what belongs to the session and not to one of its runs.
func (r *reading) session(ctx context.Context, next *Facts) error {
	if ref := next.State.Checkpoint; ref != nil {
		next.Checkpoint = r.before.Checkpoint
		if next.Checkpoint == nil || next.Checkpoint.digest != ref.Digest {
			stored, err := decoded[session.Checkpoint](ctx, r, *ref)
			if err != nil {
				return err
			}
			next.Checkpoint = &Checkpoint{ID: stored.ID, Boundary: stored.FirstKeptMessageIndex, digest: ref.Digest}
		}
	}
	if ref := next.State.Title; ref != nil && r.content.Title {
		if next.Title = r.before.Title; next.Title == "" {
			stored, err := decoded[session.ModelAction](ctx, r, *ref)
			if err != nil {
				return err
			}
			next.Title = session.TitleOf(stored.Message)
		}
	}
	return nil
}

func decoded[T any](ctx context.Context, r *reading, ref cas.Ref) (T, error) {
	raw, err := r.Store.Get(ctx, r.scope(), ref)
	if err != nil {
		var zero T
		return zero, err
	}
	return session.DecodeObject[T](raw)
}

// previewBytes is how much of an answer is kept in memory: more than a status shows, so that the cut is marked there.
const previewBytes = 512

func (r *reading) answer(ctx context.Context, ref cas.MessageRef) (string, error) {
	resolver := cas.NewResolver(r.Store, session.MessageIn, cas.ResolverOptions{})
	raws, err := resolver.Messages(ctx, r.scope(), []cas.MessageRef{ref})
	if err != nil {
		return "", err
	}
	answer, err := message.Decode(raws[0])
	if err != nil {
		return "", fmt.Errorf("%w: %w", session.ErrFormat, err)
	}
	return message.Beginning(answer.PlainText(), previewBytes), nil
}

// advance reads the tail of a stream whose state is kept, and opens one whose state is not, or whose tail does not fit: it
// may have been purged, cut or restored.
func (r *reading) advance(ctx context.Context) (session.State, error) {
	if r.state != nil {
		state := r.state.Clone()
		err := agent.Advance(ctx, r.Log, r.Store, r.stream, &state)
		if err == nil || !damaged(err) && !errors.Is(err, runevent.ErrTruncated) {
			return state, err
		}
	}
	return agent.LoadState(ctx, r.Log, r.Store, r.stream)
}

// record reads an assembly record, without what only the trajectory shows of it.
func (r *reading) record(ctx context.Context, ref cas.Ref) (*session.AssemblyRecord, error) {
	snapshot, err := decoded[session.ContextSnapshot](ctx, r, ref)
	if err != nil {
		return nil, err
	}
	record := snapshot.Assembly
	record.Admitted, record.Rendered = session.Admitted{}, session.Rendered{}
	return &record, nil
}

func (r *reading) scope() cas.Scope {
	return cas.Scope{Namespace: r.stream.Namespace, Session: r.stream.Session}
}
