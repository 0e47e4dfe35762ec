package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/runevent"
)

const (
	// sweepBatch is how many messages one request of a sweep asks for. The next one is sent when half of them are there.
	sweepBatch = 256
	// sweepIdle is how long the server keeps the consumer of a sweep that is over, or whose reader stands still.
	sweepIdle = 10 * time.Second
	// sweepPatience is how long a consumer may take to be made.
	sweepPatience = 2 * time.Second
	// sweepPause is for how long no sweep is tried after the server made no consumer, refusedPause when that is not allowed.
	sweepPause, refusedPause = 30 * time.Second, time.Hour
	// sweepBegin is for how long a consumer that was made may not be found yet: of three servers, the one that is asked may
	// be the last to hear of it. sweepAgain is the time between two questions.
	sweepBegin, sweepAgain = time.Second, 20 * time.Millisecond
)

// Sweep calls fn with the records of a session's streams of one class, in the order of the log, and so in the order of
// each stream. fn's error ends it and is returned as it is. It is the cheaper way to read all of a long session: a server
// reads the log once, and not once for each stream. Unlike Read it is not tried again: after any other error, and where
// the replica that serves it is behind, what was delivered is complete as far as it goes, and Read has the rest.
//
// It needs a consumer, which lives in the memory of one server for as long as the sweep. After the server made none, Sweep
// fails at once for some time.
func (l *Log) Sweep(ctx context.Context, s runevent.Sweep, fn func(runevent.Record) error) error {
	if err := runevent.ValidateSession(s.Namespace, s.Session); err != nil {
		return err
	}
	if time.Now().UnixNano() < l.noSweep.Load() {
		return errNoSweep
	}
	consumer, pending, err := l.consumer(ctx, s)
	if err != nil {
		if ctx.Err() == nil {
			l.pauseSweeps(err)
		}
		return fmt.Errorf("sweep: %w", err)
	}
	if pending == 0 {
		return nil
	}
	sweep := newSweeping(l, s.Until, fn)
	err = sweep.run(ctx, consumer)
	sweep.remember()
	return err
}

var errNoSweep = errors.New("sweep: the server makes no consumers")

func (l *Log) pauseSweeps(err error) {
	pause := sweepPause
	if last := l.nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) { // the server tells it beside the request
		pause, err = refusedPause, last
	}
	l.noSweep.Store(time.Now().Add(pause).UnixNano())
	l.log.Warn("no consumer to read a session with: its streams are read one by one", "pause", pause, "error", err)
}

// consumer makes one that delivers what the sweep wants, and returns its name and how many messages wait there.
func (l *Log) consumer(ctx context.Context, s runevent.Sweep) (string, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	req := struct {
		Stream string                   `json:"stream_name"`
		Config jetstream.ConsumerConfig `json:"config"`
	}{l.opts.Stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.After + 1, AckPolicy: jetstream.AckNonePolicy,
		FilterSubject: sessionFilter(s.Class, s.Namespace, s.Session), InactiveThreshold: sweepIdle, Replicas: 1, MemoryStorage: true,
	}}
	var made struct {
		Name    string `json:"name"`
		Pending uint64 `json:"num_pending"`
	}
	err := l.api(ctx, "CONSUMER.CREATE", req, &made)
	return made.Name, made.Pending, err
}

// sweeping is one Sweep in progress.
type sweeping struct {
	log     *Log
	until   uint64
	fn      func(runevent.Record) error
	answers chan *nats.Msg
	// asked is how many messages were asked for, got how many of them came.
	asked, got uint64
	// ends has each stream's last record, by the subject.
	ends map[string]*runevent.Record
}

func newSweeping(l *Log, until uint64, fn func(runevent.Record) error) *sweeping {
	return &sweeping{log: l, until: until, fn: fn, answers: make(chan *nats.Msg, 2*sweepBatch+batchEnd), ends: map[string]*runevent.Record{}}
}

func (s *sweeping) run(ctx context.Context, consumer string) error {
	inbox := s.log.nc.NewInbox()
	sub, err := s.log.nc.ChanSubscribe(inbox, s.answers)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	patience := time.NewTimer(s.log.opts.APITimeout)
	defer patience.Stop()
	begun := time.Now()
	for {
		if s.asked-s.got <= sweepBatch/2 {
			if err := s.ask(inbox, consumer); err != nil {
				return fmt.Errorf("sweep: %w", err)
			}
			patience.Reset(s.log.opts.APITimeout) // for what was asked for before, too
		}
		select {
		case msg := <-s.answers:
			if s.got == 0 && msg.Header.Get(headerStatus) == statusNoResponder && time.Since(begun) < sweepBegin {
				select {
				case <-time.After(sweepAgain):
				case <-ctx.Done():
					return ctx.Err()
				}
				s.asked = 0
				continue
			}
			if more, err := s.take(msg); err != nil || !more {
				return err
			}
		case <-patience.C:
			return fmt.Errorf("sweep: %w", context.DeadlineExceeded)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *sweeping) ask(inbox, consumer string) error {
	body, err := json.Marshal(struct {
		Batch   int           `json:"batch"`
		Expires time.Duration `json:"expires"`
	}{sweepBatch, s.log.opts.APITimeout})
	if err != nil {
		return err
	}
	s.asked += sweepBatch
	return s.log.nc.PublishRequest(jetstream.DefaultAPIPrefix+"CONSUMER.MSG.NEXT."+s.log.opts.Stream+"."+consumer, inbox, body)
}

// take delivers one message and says whether more follow.
func (s *sweeping) take(msg *nats.Msg) (bool, error) {
	if status := msg.Header.Get(headerStatus); status != "" {
		return false, fmt.Errorf("sweep: status %s %s", status, msg.Header.Get(headerDescription))
	}
	meta, err := msg.Metadata()
	if err != nil {
		return false, fmt.Errorf("sweep: %w", err)
	}
	if s.got++; meta.Sequence.Consumer != s.got {
		return false, errors.New("sweep: a message was lost on its way")
	}
	position := meta.Sequence.Stream
	if position > s.until {
		return false, nil
	}
	rec, err := s.record(msg, position)
	if err != nil {
		return false, fmt.Errorf("sweep: %w", err)
	}
	if err := s.fn(rec); err != nil {
		return false, err
	}
	return position < s.until && meta.NumPending > 0, nil
}

func (s *sweeping) record(msg *nats.Msg, position uint64) (runevent.Record, error) {
	last := s.ends[msg.Subject]
	if last == nil {
		stream, err := streamOf(msg.Subject)
		if err != nil {
			return runevent.Record{}, err
		}
		// Every record has the one stream's strings, not the message's own.
		last = &runevent.Record{Stream: stream}
		s.ends[strings.Clone(msg.Subject)] = last
	}
	rec := record(last.Stream, msg.Header, position, msg.Data)
	last.Head = rec.Head
	if rec.Head.Sequence%runevent.Stride == 0 && rec.Head.Sequence > 0 {
		s.log.strides.Add(stride{last.Stream, rec.Head.Sequence}, position)
	}
	return rec, nil
}

// remember keeps where the streams were left, so that reading on needs no search.
func (s *sweeping) remember() {
	for _, last := range s.ends {
		s.log.hints.Add(last.Stream, hint{sequence: last.Head.Sequence, position: last.Head.Position})
	}
}
