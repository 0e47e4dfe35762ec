package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// How long a save that failed waits before it is tried again: it doubles from the first to the second.
const (
	saveBackoff    = 200 * time.Millisecond
	saveBackoffMax = 5 * time.Second
)

// errUnsaved is returned when a save was tried until ctx ended and its outcome is a failure or not known.
var errUnsaved = errors.New("not saved in time")

// retrySave repeats a save until it succeeds, fails for good, or ctx ends: nothing goes on unrecorded. No try is begun
// once ctx has ended: its entry could still reach the log and tell of something that then never happened.
func (l *loop) retrySave(ctx context.Context, what string, save func() error) error {
	wait := saveBackoff
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: not begun: %w", what, context.Cause(ctx))
		}
		err := save()
		if err == nil || permanent(err) {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), errUnsaved, fmt.Errorf("%s: %w", what, err))
		}
		l.deps.Logger.Warn("save failed, trying again", "what", what, "run", l.run.UID, "try", try, "error", err)
		if l.deps.Sleep(ctx, wait) != nil {
			return errors.Join(context.Cause(ctx), errUnsaved, fmt.Errorf("%s: %w", what, err))
		}
		wait = min(2*wait, saveBackoffMax)
	}
}

// permanent says whether repeating a save cannot help.
func permanent(err error) bool {
	for _, final := range []error{runevent.ErrFenced, runevent.ErrTooLarge, runevent.ErrInvalid, cas.ErrTooLarge, cas.ErrCorrupt, session.ErrFormat, ErrHistoryCorrupt} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// save stores an object, durable when it returns.
func (l *loop) save(ctx context.Context, mediaType string, data []byte) (cas.Ref, error) {
	var ref cas.Ref
	err := l.retrySave(ctx, "store an object", func() error {
		var err error
		ref, err = l.put(ctx, mediaType, data)
		return err
	})
	return ref, err
}

// put is one try to store an object.
func (l *loop) put(ctx context.Context, mediaType string, data []byte) (cas.Ref, error) {
	return cas.PutBody(ctx, cas.Into(l.deps.Store, l.run.Scope()), mediaType, data)
}

// append stores one entry and folds it into the state, so that memory and log never differ.
func (l *loop) append(ctx context.Context, event runevent.Event) error {
	event.Evidence.AgentID = l.run.AgentKey
	event.Evidence.AgentRunID = l.run.UID
	return l.retrySave(ctx, "append a run event", l.appendOnce(ctx, event))
}

// appendOnce returns the append as something that can be repeated. An entry whose outcome is unknown is settled first
// and never sent a second time; one that an earlier, abandoned append left behind is settled and folded too.
func (l *loop) appendOnce(ctx context.Context, event runevent.Event) func() error {
	sent := false
	return func() error {
		head, record, err := l.journal.Settle(ctx)
		if err != nil {
			return err
		}
		if record.Raw != nil {
			if err := l.apply(head, record); err != nil || sent {
				return err
			}
		}
		head, record, err = l.journal.Append(ctx, event)
		sent = errors.Is(err, runevent.ErrUnavailable)
		if err != nil {
			return err
		}
		return l.apply(head, record)
	}
}

func (l *loop) apply(head runevent.Head, record runevent.Record) error {
	entry, err := runevent.Decode(record.Raw)
	if err != nil {
		return err
	}
	if entry.Event.Kind == runevent.KindStateCommitted {
		l.committing(entry.Event.Evidence.StateRef)
	}
	l.deps.observer().Recorded(&l.run, entry, l.state.Run)
	if err := l.state.Apply(entry, head); err != nil {
		return fmt.Errorf("%w: %w", ErrHistoryCorrupt, err) // permanent: the entry is stored and must not be sent again
	}
	if entry.Event.Kind == runevent.KindStateCommitted {
		l.committed = entry.Event.Evidence.StateRef.Digest
	}
	return nil
}

// maxBody bounds what is read back as one body, in bytes.
const maxBody = 256 << 20

// body reads an object that put stored, in parts or not.
func (l *loop) body(ctx context.Context, ref cas.Ref) ([]byte, error) {
	raw, _, err := cas.GetBody(ctx, l.deps.Store, l.run.Scope(), ref, maxBody)
	return raw, err
}

// storeImages moves the body of each image into an object of its own and returns the message as it is stored.
func (l *loop) storeImages(ctx context.Context, m message.Message) (message.Message, error) {
	copied := false
	for i, block := range m.Content.Blocks {
		if block.Type != message.BlockImage || block.Ref != nil {
			continue
		}
		body, err := base64.StdEncoding.DecodeString(block.Data)
		if err != nil {
			return m, &Failure{Reason: "InvalidInput", Message: "an image is not valid base64", Err: err}
		}
		ref, err := l.save(ctx, cas.MediaBlob, body)
		if err != nil {
			return m, err
		}
		if !copied {
			m.Content.Blocks, copied = slices.Clone(m.Content.Blocks), true
		}
		m.Content.Blocks[i].Data = ""
		m.Content.Blocks[i].Ref = &message.BlobRef{Digest: ref.Digest.String(), Size: ref.Size}
	}
	return m, nil
}

// loadImages puts the body of each stored image back in place, as requests need it.
func (l *loop) loadImages(ctx context.Context, m message.Message) (message.Message, error) {
	copied := false
	for i, block := range m.Content.Blocks {
		if block.Type != message.BlockImage || block.Ref == nil {
			continue
		}
		digest, err := cas.ParseDigest(block.Ref.Digest)
		if err != nil {
			return m, err
		}
		body, err := l.body(ctx, cas.Ref{Digest: digest, Size: block.Ref.Size, MediaType: cas.MediaBlob})
		if err != nil {
			return m, fmt.Errorf("read an image: %w", err)
		}
		if !copied {
			m.Content.Blocks, copied = slices.Clone(m.Content.Blocks), true
		}
		m.Content.Blocks[i].Ref = nil
		m.Content.Blocks[i].Data = base64.StdEncoding.EncodeToString(body)
	}
	return m, nil
}
