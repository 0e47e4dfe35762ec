package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/runevent"
)

// Change says that an agent's stream has grown: what the headers of its new last message tell.
type Change struct {
	Stream runevent.Stream
	// Sequence is the entry's number, Position its place in the log.
	Sequence int64
	Position uint64
	Type     runevent.Type
	Kind     runevent.Kind
	// Run is the UID of the AgentRun that the entry belongs to.
	Run string
	// Stored is when the log took the entry.
	Stored time.Time
}

// watchIdle is how long the server keeps the consumer of a watcher that is gone.
const watchIdle = time.Minute

// watchHeartbeat with one missed beat bounds how long a silent consumer is believed.
const watchHeartbeat = 2 * time.Second

// WatchHeads calls fn, from one goroutine and in order, for every entry that is appended to an agent's stream from now
// on, until ctx ends; it then returns nil. ready, if not nil, is called once "from now on" has begun: what was appended
// before must be read with Last or Streams after that. The one consumer delivers headers only.
//
// It goes on over reconnects without missing an entry. ErrTruncated is returned when the log is shorter than it was or
// another one, so that a cache of heads which fn keeps must be thrown away.
func (l *Log) WatchHeads(ctx context.Context, ready func(), fn func(Change)) error {
	w := watching{log: l, fn: fn}
	err := l.patiently(ctx, "watch heads", func(ctx context.Context) (err error) {
		w.seen, w.created, err = l.end(ctx)
		return l.healed(ctx, err)
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end that was asked for is no failure
	}
	if err != nil {
		return err
	}
	if ready != nil {
		ready()
	}
	for {
		err := l.patiently(ctx, "watch heads", w.run)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end that was asked for is no failure
		}
		if err != nil {
			return err
		}
	}
}

// Follow calls fn, from one goroutine, with the stream of every entry that is appended to an agent's stream until ctx
// ends, and whether it is progress, and lost whenever entries may have been missed: at the beginning, and when the log was replaced. What fn's
// caller keeps about streams must then be read anew.
func (l *Log) Follow(ctx context.Context, fn func(stream runevent.Stream, progress bool), lost func()) error {
	for {
		err := l.WatchHeads(ctx, lost, func(c Change) { fn(c.Stream, c.Type.Progress()) })
		if !errors.Is(err, runevent.ErrTruncated) {
			return err
		}
		l.log.Error("the run-event log is another one than before", "error", err)
	}
}

// end returns the position of the log's last message, and when the log was made.
func (l *Log) end(ctx context.Context) (uint64, time.Time, error) {
	var info struct {
		Created time.Time `json:"created"`
		State   struct {
			Last uint64 `json:"last_seq"`
		} `json:"state"`
	}
	if err := l.api(ctx, "STREAM.INFO", struct{}{}, &info); err != nil {
		return 0, time.Time{}, err
	}
	return info.State.Last, info.Created, nil
}

// watching is a watch in progress; seen is the last position that was delivered or passed over.
type watching struct {
	log     *Log
	fn      func(Change)
	seen    uint64
	created time.Time
}

// errReconnected ends a consumer: it would go on by itself behind the last message that it delivered, also of a log that was
// put back to an older state meanwhile, and wait there for what does not come.
var errReconnected = errors.New("connected again")

// run delivers from one consumer until it breaks or the connection was lost. It returns an error unless something was
// delivered, so that only a watch without any progress is slowed down.
func (w *watching) run(ctx context.Context) error {
	connected := w.log.nc.StatusChanged(nats.CONNECTED)
	defer w.log.nc.RemoveStatusListener(connected)
	end, created, err := w.log.end(ctx)
	if err != nil {
		return w.log.healed(ctx, err)
	}
	if end < w.seen || !created.Equal(w.created) {
		return fmt.Errorf("%w: %w: the log ends at position %d, not %d", errFinal, runevent.ErrTruncated, end, w.seen)
	}
	messages, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer messages.Stop()
	connection, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	go func() {
		select {
		case <-connected:
			lose(errReconnected)
		case <-connection.Done():
		}
	}()
	delivered := false
	for {
		msg, err := messages.Next(jetstream.NextContext(connection))
		if err != nil {
			if delivered || errors.Is(context.Cause(connection), errReconnected) {
				return nil
			}
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Stream <= w.seen {
			continue
		}
		w.seen, delivered = meta.Sequence.Stream, true
		w.deliver(msg, meta)
	}
}

func (w *watching) open(ctx context.Context) (jetstream.MessagesContext, error) {
	ctx, cancel := context.WithTimeout(ctx, w.log.opts.APITimeout)
	defer cancel()
	consumer, err := w.log.js.OrderedConsumer(ctx, w.log.opts.Stream, jetstream.OrderedConsumerConfig{
		FilterSubjects:    []string{subjectRoot + string(runevent.ClassRun) + ".>"},
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       w.seen + 1,
		HeadersOnly:       true,
		InactiveThreshold: watchIdle,
		MaxResetAttempts:  1,
	})
	if err != nil {
		return nil, err
	}
	return consumer.Messages(jetstream.PullHeartbeat(watchHeartbeat), jetstream.PullExpiry(10*time.Second))
}

func (w *watching) deliver(msg jetstream.Msg, meta *jetstream.MsgMetadata) {
	change, err := changeOf(msg.Subject(), msg.Headers())
	if err != nil {
		w.log.log.Warn("a message that is no entry was passed over", "subject", msg.Subject(), "position", meta.Sequence.Stream, "error", err)
		return
	}
	change.Position, change.Stored = meta.Sequence.Stream, meta.Timestamp
	w.fn(change)
}

func changeOf(subject string, header nats.Header) (Change, error) {
	stream, err := streamOf(subject)
	if err != nil {
		return Change{}, err
	}
	sequence, err := strconv.ParseInt(header.Get(HeaderSequence), 10, 64)
	if err != nil {
		return Change{}, errors.New("no sequence")
	}
	return Change{
		Stream: stream, Sequence: sequence, Run: header.Get(HeaderRun),
		Type: runevent.Type(header.Get(HeaderType)), Kind: runevent.Kind(header.Get(HeaderKind)),
	}, nil
}
