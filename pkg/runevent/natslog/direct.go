package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/runevent"
)

// errNotThere is returned when the server that answered a direct get has no such message, or does not serve direct gets.
var errNotThere = errors.New("not there")

// The headers and status codes of direct gets.
const (
	headerStatus       = "Status"
	headerDescription  = "Description"
	headerSubject      = "Nats-Subject"
	headerPosition     = "Nats-Sequence"
	headerLastPosition = "Nats-Last-Sequence"
	headerPending      = "Nats-Num-Pending"

	statusEnd         = "204"
	statusNotFound    = "404"
	statusNoResponder = "503"
)

// directGet sends one batch request and returns its records in order. When the batch broke, the records that arrived
// before are returned with the error. A server without batches answers with one message, which is then the batch.
func (l *Log) directGet(ctx context.Context, req getRequest) ([]runevent.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, l.opts.APITimeout)
	defer cancel()
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	inbox := l.nc.NewInbox()
	// A synchronous subscription makes room for 65,536 messages, which is half a megabyte for each read.
	answers := make(chan *nats.Msg, max(req.Batch, len(req.MultiLast), 1)+batchEnd)
	sub, err := l.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	if err := l.nc.PublishRequest(jetstream.DefaultAPIPrefix+"DIRECT.GET."+l.opts.Stream, inbox, body); err != nil {
		return nil, err
	}
	var batch []runevent.Record
	var before uint64
	for {
		msg, err := answered(ctx, answers)
		if err != nil {
			return batch, err
		}
		if status := msg.Header.Get(headerStatus); status != "" && len(msg.Data) == 0 {
			return batch, statusError(status, msg.Header.Get(headerDescription))
		}
		rec, err := directRecord(msg)
		if err != nil {
			return batch, err
		}
		batched := msg.Header.Get(headerPending) != ""
		if batched && number(msg.Header, headerLastPosition) != before {
			return batch, errors.New("a message of the batch was lost on its way")
		}
		before = rec.Head.Position
		if n := len(batch); n > 0 && batch[n-1].Stream == rec.Stream {
			rec.Stream = batch[n-1].Stream // and not the message's own strings
		}
		batch = append(batch, rec)
		if !batched {
			return batch, nil
		}
	}
}

// Records returns the stream's records at the given places, in that order, and a zero Record for each that the replica which
// answers does not have there: it may be behind, or a backup was restored. Positions belong to the log that they were read from.
func (l *Log) Records(ctx context.Context, stream runevent.Stream, places []runevent.Head) ([]runevent.Record, error) {
	if err := stream.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.opts.APITimeout)
	defer cancel()
	inbox := l.nc.NewInbox()
	answers := make(chan *nats.Msg, len(places))
	sub, err := l.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	for _, place := range places {
		body, err := json.Marshal(getRequest{Sequence: place.Position})
		if err != nil {
			return nil, err
		}
		if err := l.nc.PublishRequest(jetstream.DefaultAPIPrefix+"DIRECT.GET."+l.opts.Stream, inbox, body); err != nil {
			return nil, fmt.Errorf("read %s: %w", stream, err)
		}
	}
	got := map[uint64]runevent.Record{}
	for range places {
		msg, err := answered(ctx, answers)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", stream, err)
		}
		if rec, err := directRecord(msg); err == nil && rec.Stream == stream {
			got[rec.Head.Position] = rec
		}
	}
	out := make([]runevent.Record, len(places))
	for i, place := range places {
		if rec := got[place.Position]; rec.Head.Sequence == place.Sequence {
			out[i] = rec
		}
	}
	return out, nil
}

// batchEnd is what may follow the messages of a batch: the mark of its end, or that nobody answers.
const batchEnd = 2

// answered waits for the next message. A connection that is closed meanwhile answers no more.
func answered(ctx context.Context, answers <-chan *nats.Msg) (*nats.Msg, error) {
	select {
	case msg := <-answers:
		return msg, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func statusError(status, description string) error {
	switch status {
	case statusEnd:
		return nil
	case statusNotFound, statusNoResponder:
		return errNotThere
	}
	return fmt.Errorf("direct get: status %s %s", status, description)
}

func directRecord(msg *nats.Msg) (runevent.Record, error) {
	stream, err := streamOf(msg.Header.Get(headerSubject))
	if err != nil {
		return runevent.Record{}, err
	}
	position := number(msg.Header, headerPosition)
	if position == 0 {
		return runevent.Record{}, errors.New("direct get: message without a position")
	}
	return record(stream, msg.Header, position, msg.Data), nil
}

func number(header nats.Header, key string) uint64 {
	n, err := strconv.ParseUint(header.Get(key), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
