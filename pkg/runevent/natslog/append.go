package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// The server's error codes that decide something here.
const (
	codeMessageTooLarge jetstream.ErrorCode = 10054
	codeOtherStream     jetstream.ErrorCode = 10060
)

// ack is the server's answer to a publish.
type ack struct {
	Stream    string              `json:"stream"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

// Append implements runevent.Log.
func (l *Log) Append(ctx context.Context, stream runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	entry, err := runevent.CheckAppend(stream, expect, raw)
	if err != nil {
		return runevent.Head{}, err
	}
	digest := cas.Of(raw)
	a := appending{
		log: l, stream: stream, expect: expect, position: expect.Position,
		head: runevent.Head{Sequence: entry.Sequence, Digest: digest},
		msg:  messageFor(stream, entry, raw, digest.Hex()),
	}
	a.msg.Header.Set(jetstream.ExpectedStreamHeader, l.opts.Stream)
	return a.run(ctx)
}

// appending is one append until its outcome is known.
type appending struct {
	log    *Log
	stream runevent.Stream
	expect runevent.Head
	// position is where the server has the entry that expect names; it differs from expect's after a restored backup.
	position uint64
	head     runevent.Head
	msg      *nats.Msg
	warned   bool
}

func (a *appending) run(ctx context.Context) (runevent.Head, error) {
	var wait backoff
	for {
		err := a.publish(ctx)
		if err == nil {
			return a.head, nil
		}
		if errors.Is(err, errFinal) {
			return runevent.Head{}, fmt.Errorf("append entry %d: %w", a.head.Sequence, err)
		}
		stored, settleErr := a.settle(ctx, err)
		switch {
		case stored:
			return a.head, nil
		case errors.Is(settleErr, runevent.ErrFenced):
			return runevent.Head{}, settleErr
		case settleErr != nil:
			err = settleErr
		}
		a.warn(err)
		if !wait.pause(ctx) {
			return runevent.Head{}, fmt.Errorf("append entry %d: %w: %w (%w)", a.head.Sequence, runevent.ErrUnavailable, err, ctx.Err())
		}
	}
}

func (a *appending) warn(err error) {
	if a.warned {
		return
	}
	a.warned = true
	a.log.log.Warn("append is tried again", "stream", a.stream.String(), "sequence", a.head.Sequence, "error", err)
}

// publish sends the message once. Any error but errFinal leaves the outcome open.
func (a *appending) publish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.log.opts.APITimeout)
	defer cancel()
	a.msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(a.position, 10))
	answer, err := a.log.nc.RequestMsgWithContext(ctx, a.msg)
	if err != nil {
		return err
	}
	var got ack
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return fmt.Errorf("acknowledgement: %w", err)
	}
	switch {
	case got.Error != nil && (got.Error.ErrorCode == codeMessageTooLarge || got.Error.ErrorCode == codeOtherStream):
		return fmt.Errorf("%w: %w", errFinal, got.Error)
	case got.Error != nil:
		return got.Error
	case got.Sequence == 0:
		return errors.New("acknowledgement without a sequence")
	case got.Duplicate:
		// The window remembers ids of purged messages too: that the id was seen does not say that the entry is there.
		return errDuplicate
	}
	a.head.Position = got.Sequence
	return nil
}

var errDuplicate = errors.New("the server knows the message id already")

// settle finds out what became of the publishes so far: stored; or the stream still ends where it should, so that the
// message may be sent again; or an error, ErrFenced when the stream ends elsewhere. answer is the last publish's error.
func (a *appending) settle(ctx context.Context, answer error) (stored bool, err error) {
	last, err := a.log.last(ctx, a.stream)
	if code(err) == jetstream.JSErrCodeStreamNotFound {
		if err := a.log.Ensure(ctx); err != nil {
			return false, err
		}
		last, err = a.log.last(ctx, a.stream)
	}
	if err != nil {
		return false, err
	}
	switch {
	case last.Head.Digest == a.head.Digest:
		a.head.Position = last.Head.Position
		return true, nil
	case last.Head.Digest == a.expect.Digest:
		a.position = last.Head.Position
		if errors.Is(answer, errDuplicate) {
			a.msg.Header.Del(nats.MsgIdHdr) // it would swallow the message again; the position fences without it
		}
		return false, nil
	case last.Head.Sequence < a.expect.Sequence:
		return false, fmt.Errorf("%w: it ends with entry %d, not %d", runevent.ErrTruncated, last.Head.Sequence, a.expect.Sequence)
	}
	return false, fmt.Errorf("%w: it ends with entry %d", runevent.ErrFenced, last.Head.Sequence)
}
