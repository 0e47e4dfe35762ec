package natslimits

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/agent"
)

const (
	// maxLine is how many requests of a worker stand in the bucket's line; the others wait behind them here.
	maxLine = 128
	// look is how often the bucket is read, and the limits anew, while something waits; each look has some jitter.
	look = time.Second
	// clockAge is how long a comparison with the server's clock is good for.
	clockAge = 30 * time.Second
	// conflictWait is how long the first write after a lost race rests at most, faultWait how long one after a fault does.
	conflictWait = 10 * time.Millisecond
	maxConflict  = 80 * time.Millisecond
	faultWait    = 250 * time.Millisecond
	maxFault     = 5 * time.Second
)

// line is what this worker wants of one provider. One goroutine writes for all its requests: what gathers while it writes
// goes with the next write.
type line struct {
	limits        *Limits
	key, provider string
	poke          chan struct{}

	mu    sync.Mutex
	quota agent.Quota
	// asks wait, in the order in which they came; held have their turn.
	asks, held []*ask
	// pause is what the provider asked for and the bucket does not have yet.
	pause time.Duration
	// reading says that the limits are being read anew, refreshed when they were.
	reading   bool
	refreshed time.Time

	// The rest is the goroutine's own.
	kv      jetstream.KeyValue
	watch   jetstream.KeyWatcher
	offset  time.Duration // the server's clock before this one
	checked time.Time
	known   state
	// revision is that of known in the bucket; 0 for none. loaded says that known was read.
	revision uint64
	loaded   bool
	lastUsed time.Time
	lastRead time.Time
}

func (at *line) wake() {
	select {
	case at.poke <- struct{}{}:
	default:
	}
}

// busy says whether somebody needs the line.
func (at *line) busy() bool { return len(at.asks)+len(at.held) > 0 || at.pause > 0 }

// run looks after the line until ctx ends or nobody has needed it for a lease.
func (at *line) run(ctx context.Context) {
	defer at.close()
	faults, races := 0, 0
	at.lastUsed = time.Now()
	for {
		next, err := at.step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case lost(err):
			races++
			next = jitter(min(conflictWait<<min(races, 10), maxConflict))
			at.loaded = false
		case err != nil:
			if faults == 0 {
				at.limits.opts.Logger.Warn("limits of a provider not shared, its requests wait", "provider", at.provider, "error", err)
			}
			next = jitter(min(faultWait<<min(faults, 10), maxFault))
			faults++
			at.loaded, at.checked = false, time.Time{}
			at.unwatch()
		default:
			faults, races = 0, 0
		}
		if next == 0 && at.limits.leave(at) {
			return
		}
		if !at.rest(ctx, next, err != nil) {
			return
		}
	}
}

// lost says whether another worker was faster.
func lost(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch)
}

// jitter is between half of d and d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// rest waits until there is something to do: a time that has come, a request, or what another worker wrote. After a
// failure only the time counts.
func (at *line) rest(ctx context.Context, d time.Duration, failed bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	poke := at.poke
	var updates <-chan jetstream.KeyValueEntry
	if failed {
		poke = nil
	} else if at.watch != nil {
		updates = at.watch.Updates()
	}
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-poke:
	case entry, open := <-updates:
		if !open {
			at.watch = nil
			return true
		}
		at.take(entry)
	}
	return true
}

// take remembers what another worker wrote, unless it is known already.
func (at *line) take(entry jetstream.KeyValueEntry) {
	if entry == nil || entry.Revision() <= at.revision {
		return
	}
	at.lastRead = time.Now()
	at.known, at.revision, at.loaded = decode(entry), entry.Revision(), true
	if entry.Operation() != jetstream.KeyValuePut {
		at.revision = 0
	}
}

// decode reads a state. One that cannot be read, or is of another version, is begun anew: it would be so in a minute.
func decode(entry jetstream.KeyValueEntry) state {
	s := empty()
	if entry.Operation() != jetstream.KeyValuePut || json.Unmarshal(entry.Value(), &s) != nil || s.V != stateVersion {
		return empty()
	}
	return s
}

// step brings the bucket to where this worker and the time want it and hands out the turns that came of it. It returns
// when there is something to do again by itself, 0 for never.
func (at *line) step(ctx context.Context) (time.Duration, error) {
	if !at.used() {
		return at.untilUnused(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, at.limits.opts.APITimeout)
	defer cancel()
	if err := at.load(ctx); err != nil {
		return 0, err
	}
	at.refresh()
	at.mu.Lock()
	at.hand(at.known)
	next := at.known.clone()
	at.apply(&next)
	at.mu.Unlock()
	if err := at.write(ctx, next); err != nil {
		return 0, err
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	at.hand(at.known)
	return at.next(), nil
}

// used says whether the line is needed, or has something in the bucket that is not needed any more.
func (at *line) used() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.busy() || at.known.Workers[at.limits.me] != nil {
		at.lastUsed = time.Now()
		return true
	}
	return false
}

// untilUnused is how long a line rests before it is given up.
func (at *line) untilUnused() time.Duration {
	return max(0, time.Until(at.lastUsed.Add(at.limits.opts.Lease)))
}

// load makes the clock, the watch and the state ready.
func (at *line) load(ctx context.Context) error {
	if at.kv == nil || time.Since(at.checked) > clockAge {
		asked := at.limits.opts.Now()
		kv, server, err := at.limits.bucket(ctx)
		if err != nil {
			return err
		}
		answered := at.limits.opts.Now()
		// The answer was given somewhere between the two: half of the way is the least error.
		at.kv, at.offset, at.checked = kv, server.Sub(asked.Add(answered.Sub(asked)/2)), time.Now()
	}
	if at.watch == nil {
		watch, err := at.kv.Watch(at.limits.ctx, at.key)
		if err != nil {
			return err
		}
		at.watch = watch
	}
	if at.loaded && (!at.waiting() || time.Since(at.lastRead) < look) {
		return nil
	}
	entry, err := at.kv.Get(ctx, at.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		at.known, at.revision, at.loaded, at.lastRead = empty(), 0, true, time.Now()
		return nil
	}
	if err != nil {
		return err
	}
	at.lastRead = time.Now()
	if !at.loaded || entry.Revision() > at.revision { // an answer of a follower may be late
		at.known, at.revision, at.loaded = decode(entry), entry.Revision(), true
	}
	return nil
}

func (at *line) waiting() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return len(at.asks) > 0
}

func (at *line) unwatch() {
	if at.watch != nil {
		_ = at.watch.Stop() // fails only on a connection that is closed
		at.watch = nil
	}
}

// now is the server's time in milliseconds.
func (at *line) now() int64 { return at.limits.opts.Now().Add(at.offset).UnixMilli() }

// apply puts into a state what this worker holds and waits for, says that it is there, and gives out turns.
func (at *line) apply(s *state) {
	now, lease := at.now(), at.limits.opts.Lease.Milliseconds()
	s.rewind(now, at.limits.opts.Window)
	s.adopt(at.quota)
	if at.pause > 0 {
		s.postpone(max(now, s.At) + at.pause.Milliseconds())
	}
	mine := &part{}
	known := map[uint64]bool{}
	if stored := s.Workers[at.limits.me]; stored != nil {
		mine.Until = stored.Until
		for _, t := range stored.Line {
			known[t.N] = true
		}
	}
	for _, a := range at.held {
		mine.Held = append(mine.Held, a.n)
		s.Next = max(s.Next, a.n+1)
	}
	slices.Sort(mine.Held)
	for i, a := range at.asks {
		a.tried = true
		if i >= maxLine {
			continue
		}
		if !a.stored && !known[a.n] {
			a.n = s.Next
		}
		s.Next = max(s.Next, a.n+1)
		mine.Line = append(mine.Line, ticket{a.n, a.tokens})
	}
	if mine.Until < now+lease*3/4 {
		mine.Until = now + lease
	}
	if s.Workers == nil {
		s.Workers = map[string]*part{}
	}
	s.Workers[at.limits.me] = mine
	s.settle(now, at.limits.opts.Window)
	at.withdraw(s, mine)
}

// withdraw takes requests that do not wait off the line again, and this worker when it wants nothing.
func (at *line) withdraw(s *state, mine *part) {
	for _, a := range at.asks {
		if a.atOnce {
			mine.Line = slices.DeleteFunc(mine.Line, func(t ticket) bool { return t.N == a.n })
		}
	}
	if len(mine.Held)+len(mine.Line) == 0 {
		delete(s.Workers, at.limits.me)
	}
}

// write stores a state unless it differs from the known one in nothing but the time.
func (at *line) write(ctx context.Context, next state) error {
	at.mu.Lock()
	pause := at.pause
	at.mu.Unlock()
	same := next
	same.At = at.known.At
	before, err := json.Marshal(at.known)
	if err != nil {
		return err
	}
	after, err := json.Marshal(same)
	if err != nil {
		return err
	}
	if !bytes.Equal(before, after) {
		value, err := json.Marshal(next)
		if err != nil {
			return err
		}
		if at.revision == 0 {
			at.revision, err = at.kv.Create(ctx, at.key, value)
		} else {
			at.revision, err = at.kv.Update(ctx, at.key, value, at.revision)
		}
		if err != nil {
			return err
		}
		at.known = next
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.pause <= pause {
		at.pause = 0
	}
	at.refuse()
	return nil
}

// refuse tells requests that do not wait and are not in the bucket's line that it is not their turn. Those that came
// while the state was written were not tried yet.
func (at *line) refuse() {
	mine := at.known.Workers[at.limits.me]
	at.asks = slices.DeleteFunc(at.asks, func(a *ask) bool {
		if !a.atOnce || !a.tried || mine != nil && slices.Contains(mine.Held, a.n) {
			return false
		}
		a.refused = true
		close(a.settled)
		return true
	})
}

// hand gives the turns to the requests that have them in the bucket.
func (at *line) hand(s state) {
	mine := s.Workers[at.limits.me]
	if mine == nil {
		return
	}
	stored := map[uint64]bool{}
	for _, t := range mine.Line {
		stored[t.N] = true
	}
	at.asks = slices.DeleteFunc(at.asks, func(a *ask) bool {
		a.stored = a.stored || stored[a.n]
		if a.n == 0 || !slices.Contains(mine.Held, a.n) {
			return false
		}
		at.held = append(at.held, a)
		close(a.settled)
		return true
	})
}

// next is when the line must be looked after again: to say that this worker is there, and when the time of its first
// request has come. The requests of others are theirs; this worker sees to them a while later, should they be gone.
func (at *line) next() time.Duration {
	lease := at.limits.opts.Lease
	if !at.busy() {
		return max(time.Millisecond, at.untilUnused())
	}
	wait := lease / 3
	if len(at.asks) == 0 {
		return wait
	}
	wait = min(wait, jitter(look))
	if first, of, ok := at.known.first(); ok && of == at.limits.me {
		opens := time.Duration(at.known.opens(first, at.limits.opts.Window)-at.now()) * time.Millisecond
		wait = min(wait, max(opens, time.Millisecond))
	}
	return wait
}

// refresh reads the limits anew while something waits, in a goroutine of its own: it may take a while.
func (at *line) refresh() {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.reading || len(at.asks) == 0 || at.asks[0].current == nil || time.Since(at.refreshed) < look {
		return
	}
	at.reading, at.refreshed = true, time.Now()
	current := at.asks[0].current
	at.limits.working.Go(func() {
		ctx, cancel := context.WithTimeout(at.limits.ctx, at.limits.opts.APITimeout)
		defer cancel()
		quota, err := current(ctx)
		at.mu.Lock()
		defer at.mu.Unlock()
		if err == nil && quota.Generation > at.quota.Generation && quota.Provider == at.provider {
			at.quota = quota
			at.wake()
		}
		at.reading = false
	})
}

// close gives back what is in the bucket when the process ends.
func (at *line) close() {
	defer at.unwatch()
	if at.limits.ctx.Err() == nil || at.known.Workers[at.limits.me] == nil || at.kv == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for range 8 {
		entry, err := at.kv.Get(ctx, at.key)
		if err != nil {
			return // the lease ends by itself
		}
		next := decode(entry)
		delete(next.Workers, at.limits.me)
		next.settle(at.now(), at.limits.opts.Window)
		value, err := json.Marshal(next)
		if err != nil {
			return
		}
		if _, err = at.kv.Update(ctx, at.key, value, entry.Revision()); err == nil || !lost(err) {
			return
		}
		timer := time.NewTimer(jitter(conflictWait))
		<-timer.C
	}
}
