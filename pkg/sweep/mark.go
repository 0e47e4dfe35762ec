package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// mark marks everything that the entries of a stream reach. An entry that is missing or damaged ends it: what that referred
// to is not known.
func (s *Sweep) mark(ctx context.Context, end runevent.Record) error {
	var before runevent.Head
	err := s.Log.Read(ctx, end.Stream, 0, func(record runevent.Record) error {
		if err := runevent.Verify(before, record); err != nil {
			return fmt.Errorf("%w: %w", ErrHistory, err)
		}
		before = record.Head
		return s.reach(ctx, record.Raw)
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", end.Stream, err)
	}
	if before.Sequence < end.Head.Sequence {
		return fmt.Errorf("read %s: %w: entry %d is missing", end.Stream, ErrHistory, before.Sequence+1)
	}
	return nil
}

// reach marks the objects that bytes name, and what those name.
func (s *Sweep) reach(ctx context.Context, raw []byte) error {
	waiting := s.named(nil, raw)
	for len(waiting) > 0 {
		next := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		object, err := s.Store.Get(ctx, s.Scope, cas.Ref{Digest: next})
		if err != nil {
			return fmt.Errorf("read what is referred to: %w", errors.Join(err, ctx.Err()))
		}
		waiting = s.named(waiting, object)
	}
	return nil
}

// hexLength is the length of a digest's digits.
const hexLength = 64

var digestMark = []byte("sha256:")

// named appends the stored objects that bytes name and that were not met yet. A digest of something else (an input's, a
// section's) is no object's, and one that is not stored is none that could be removed.
func (s *Sweep) named(to []cas.Digest, raw []byte) []cas.Digest {
	for {
		at := bytes.Index(raw, digestMark)
		if at < 0 || len(raw)-at < len(digestMark)+hexLength {
			return to
		}
		digest, err := cas.ParseDigest(string(raw[at : at+len(digestMark)+hexLength]))
		raw = raw[at+len(digestMark):]
		if err != nil || s.marked[digest] {
			continue
		}
		if _, stored := s.stored[digest]; stored {
			s.marked[digest] = true
			to = append(to, digest)
		}
	}
}
