package trajectory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// ErrNoText is returned when an entry has no text that was cut.
var ErrNoText = errors.New("the entry has no text that was cut")

// ErrNoImage is returned when an entry has no stored image at the given place.
var ErrNoImage = errors.New("the entry has no stored image there")

// maxText bounds the whole text of a result, in bytes: no more than that is ever kept.
const maxText = 8 << 20

// WholeText returns all of the text of an entry's result that was cut, as it was kept. The text is prose, as the result's
// own is. A notice says what is wrong with it when it cannot be read; an error is ErrNoEntry, ErrNoText or the log's or
// the store's own failure.
func (r *Reader) WholeText(ctx context.Context, ix *Index, id string) (string, *Notice, error) {
	d, err := r.records(ctx, ix, id)
	if err != nil {
		return "", nil, err
	}
	for _, entry := range slices.Backward(d.events) {
		ref := entry.Event.Whole
		if ref == nil {
			continue
		}
		raw, notice, err := r.bounded(ctx, ix.Scope, *ref, maxText)
		return string(raw), d.about(notice), err
	}
	if len(d.Notices) > 0 {
		return "", &d.Notices[0], nil
	}
	return "", nil, ErrNoText
}

// ImagePlace says where in an entry an image stands.
type ImagePlace struct {
	// Message is which message of a model input, from 0; below 0 for every other entry, which has one.
	Message int
	// Block is which block of the message's content, from 0.
	Block int
}

// Image returns the bytes of an image that a message names by reference, whatever they are. One of more than limit bytes
// is ErrTooLarge. A notice says what is wrong with it, or with what leads to it, when it cannot be read; an error is
// ErrNoEntry, ErrNoImage, ErrTooLarge or the log's or the store's own failure.
func (r *Reader) Image(ctx context.Context, ix *Index, id string, place ImagePlace, limit int64) ([]byte, *Notice, error) {
	d, err := r.records(ctx, ix, id)
	if err != nil {
		return nil, nil, err
	}
	raw, notice, err := d.message(ctx, place.Message)
	if err != nil || notice != nil {
		return nil, d.about(notice), err
	}
	m, err := message.Decode(raw)
	if err != nil || place.Block < 0 || place.Block >= len(m.Content.Blocks) {
		return nil, nil, ErrNoImage
	}
	block := m.Content.Blocks[place.Block]
	if block.Type != message.BlockImage || block.Ref == nil {
		return nil, nil, ErrNoImage
	}
	digest, err := cas.ParseDigest(block.Ref.Digest)
	if err != nil {
		return nil, nil, ErrNoImage
	}
	if block.Ref.Size > limit {
		return nil, nil, fmt.Errorf("%w: the image has %d bytes, at most %d are shown", ErrTooLarge, block.Ref.Size, limit)
	}
	data, notice, err := r.bounded(ctx, ix.Scope, cas.Ref{Digest: digest, Size: block.Ref.Size, MediaType: cas.MediaBlob}, limit)
	return data, d.about(notice), err
}

// records opens an entry with its records alone.
func (r *Reader) records(ctx context.Context, ix *Index, id string) (*detail, error) {
	n, ok := ix.find(id)
	if !ok {
		return nil, ErrNoEntry
	}
	d := &detail{reader: r, index: ix, node: n, window: newWindow(r.log)}
	d.window.single(ctx, n)
	return d, d.readEvents(ctx)
}

// about completes a notice about the entry.
func (d *detail) about(n *Notice) *Notice {
	if n != nil {
		n.EntryID, n.Agent = d.node.ID, d.node.Agent
	}
	return n
}

// message is one stored message of the entry: of a model input the one at a position, of any other entry its only one, for
// a position below 0. What an imported file says names no stored image.
func (d *detail) message(ctx context.Context, position int) ([]byte, *Notice, error) {
	if len(d.events) == 0 && len(d.Notices) > 0 {
		return nil, &d.Notices[0], nil
	}
	if len(d.events) == 0 || d.node.file != nil {
		return nil, nil, ErrNoImage
	}
	event := &d.events[0].Event
	input := event.Record
	if event.Kind == runevent.KindContextCaptured {
		input = event.Evidence.ContextRef
	}
	switch {
	case (input != nil) != (position >= 0):
		return nil, nil, ErrNoImage
	case input != nil:
		return d.inputMessage(ctx, *input, position)
	case event.Kind == runevent.KindModelCompleted && event.PayloadRef != nil:
		return d.answered(ctx, *event.PayloadRef)
	}
	for _, entry := range slices.Backward(d.events) {
		if event := entry.Event; event.Type == runevent.TypeMessageUser || event.Type == runevent.TypeToolResult {
			if event.Body != nil || event.Ref == nil {
				return event.Body, nil, nil
			}
			return d.reader.bytes(ctx, d.index.Scope, *event.Ref)
		}
	}
	return nil, nil, ErrNoImage
}

// inputMessage reads one message of a fixed input.
func (d *detail) inputMessage(ctx context.Context, input cas.Ref, position int) ([]byte, *Notice, error) {
	snapshot, notice, err := load[session.ContextSnapshot](ctx, d.reader, d.index.Scope, input)
	if err != nil || notice != nil {
		return nil, notice, err
	}
	refs, err := cas.ReadList(ctx, d.reader.store, d.index.Scope, snapshot.Messages)
	if err != nil {
		if notice := objectNotice(cas.Digest{}, err); notice != nil {
			return nil, notice, nil
		}
		return nil, nil, fmt.Errorf("read the input's messages: %w", err)
	}
	if position >= len(refs) {
		return nil, nil, ErrNoImage
	}
	bodies, err := d.reader.resolve(ctx, d.index.Scope, refs[position:position+1])
	if err != nil {
		return nil, nil, err
	}
	return bodies[0].raw, bodies[0].notice, nil
}

// answered reads the message of a complete response.
func (d *detail) answered(ctx context.Context, action cas.Ref) ([]byte, *Notice, error) {
	raw, notice, err := d.reader.bytes(ctx, d.index.Scope, action)
	if err != nil || notice != nil {
		return nil, notice, err
	}
	m, err := session.MessageIn(raw, 0)
	if err != nil {
		return nil, nil, ErrNoImage // an action of another form has no message
	}
	return m, nil, nil
}
