package trajectory

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

const (
	// excerptLength and excerptSize bound one excerpt, in records and in bytes.
	excerptLength, excerptSize = 256, 512 << 10
	// excerptBytes bounds the excerpts of a class that are kept.
	excerptBytes = 3 << 20
	// lookAhead is how many excerpts are read for one record at most. One that stands further ahead is read otherwise.
	lookAhead = 2
	// lookBack is how far before the first record the reading begins, in positions: others of the same time stand there.
	lookBack = 512
	// maxSweeps bounds the sweeps of one class: each that breaks off has its price.
	maxSweeps = 32
)

// forward reads the log of a session once, in its own order and beside the entries, which have about the same: a log is
// cheaper to read from one place on than at as many places as there are agents. It has no record that stands far from
// where it is, and none of a log that cannot be swept; those are to be read otherwise.
type forward struct {
	log     Sweeper
	classes map[runevent.Class]*sweeping
	scope   cas.Scope
	until   uint64
}

// sweeping is where the streams of one class are read.
type sweeping struct {
	next func() (runevent.Record, bool)
	stop func()
	// kept are the latest excerpts, one following the other; opened is where the first one of this sweep begins.
	kept   []excerpt
	bytes  int
	opened uint64
	// over says that the log gives no more; sweeps counts this one and those before it.
	over   bool
	sweeps int
}

// excerpt has all records of a class between two positions.
type excerpt struct {
	first, last uint64
	records     []runevent.Record
	bytes       int
}

// newForward returns what reads the log behind an index; nil for a log that cannot be read in that way.
func newForward(log Log, ix *Index) *forward {
	sweeper, ok := log.(Sweeper)
	if !ok {
		return nil
	}
	return &forward{log: sweeper, classes: map[runevent.Class]*sweeping{}, scope: ix.Scope, until: ix.Position}
}

// record returns a record; false when it is to be read otherwise. What is wrong with a log is for that to find out.
func (f *forward) record(ctx context.Context, stream runevent.Stream, at recordAt) (runevent.Record, bool) {
	if f == nil || at.position == 0 || at.position > f.until {
		return runevent.Record{}, false
	}
	s := f.classes[stream.Class]
	if s == nil {
		s = f.open(ctx, stream.Class, at.position)
	}
	one := s.reach(at.position)
	if one == nil && s.over && at.position > s.end() && s.end() > s.opened && s.sweeps < maxSweeps {
		// It broke, for example because nobody read on for a while. A sweep that got nowhere is not tried again.
		s = f.open(ctx, stream.Class, at.position)
		one = s.reach(at.position)
	}
	if one == nil {
		return runevent.Record{}, false
	}
	i, ok := slices.BinarySearchFunc(one.records, at.position, func(r runevent.Record, position uint64) int { return cmp.Compare(r.Head.Position, position) })
	if !ok || one.records[i].Head.Sequence != at.sequence || one.records[i].Stream != stream {
		return runevent.Record{}, false
	}
	return one.records[i], true
}

// open begins to read a class a little before a position.
func (f *forward) open(ctx context.Context, class runevent.Class, position uint64) *sweeping {
	s := &sweeping{opened: max(position, lookBack+1) - lookBack, sweeps: 1}
	if before := f.classes[class]; before != nil {
		before.stop()
		s.sweeps += before.sweeps
	}
	what := runevent.Sweep{Class: class, Namespace: f.scope.Namespace, Session: f.scope.Session, After: s.opened - 1, Until: f.until}
	s.next, s.stop = iter.Pull(func(yield func(runevent.Record) bool) {
		// That it fails is nothing: it ends, and what it leaves out is read otherwise.
		_ = f.log.Sweep(ctx, what, func(record runevent.Record) error {
			if !yield(record) {
				return errEnough
			}
			return nil
		})
	})
	f.classes[class] = s
	return s
}

func (f *forward) close() {
	if f == nil {
		return
	}
	for _, s := range f.classes {
		s.stop()
	}
}

// end is up to where the class was read.
func (s *sweeping) end() uint64 {
	if len(s.kept) == 0 {
		return s.opened
	}
	return s.kept[len(s.kept)-1].last
}

// reach returns the excerpt that has a position, and reads on to it when it is not far; nil when there is none.
func (s *sweeping) reach(position uint64) *excerpt {
	for range lookAhead {
		if s.over || len(s.kept) > 0 && position <= s.end() {
			break
		}
		s.read()
	}
	for i := len(s.kept) - 1; i >= 0; i-- {
		if one := &s.kept[i]; position >= one.first && position <= one.last {
			return one
		}
	}
	return nil
}

// read reads the next excerpt, and lets the oldest ones go.
func (s *sweeping) read() {
	one := excerpt{first: s.opened, records: make([]runevent.Record, 0, excerptLength)}
	if len(s.kept) > 0 {
		one.first = s.end() + 1
	}
	for len(one.records) < excerptLength && one.bytes < excerptSize {
		record, ok := s.next()
		if !ok {
			s.over = true
			break
		}
		one.records, one.bytes = append(one.records, record), one.bytes+len(record.Raw)
	}
	if len(one.records) == 0 {
		return
	}
	one.last = one.records[len(one.records)-1].Head.Position
	one.own()
	s.kept, s.bytes = append(s.kept, one), s.bytes+one.bytes
	for len(s.kept) > 1 && s.bytes > excerptBytes {
		s.bytes -= s.kept[0].bytes
		s.kept = slices.Delete(s.kept, 0, 1)
	}
}

// own gives the records memory of their own, together: as they came, each keeps the message that it came in.
func (e *excerpt) own() {
	all := make([]byte, 0, e.bytes)
	for i := range e.records {
		begin := len(all)
		all = append(all, e.records[i].Raw...)
		e.records[i].Raw = all[begin:len(all):len(all)]
	}
}
