package natsqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/worker"
)

// DefaultStream is the name of the work queue's JetStream stream, consumerName that of its one consumer.
const (
	DefaultStream = "AGENTLOOP_WORK"
	consumerName  = "workers"
)

const workRoot = "agentloop.work."

// codeNotStored is the server's error when a stream's limits refuse a message: here, when the subject has one already.
const codeNotStored jetstream.ErrorCode = 10077

// ErrInvalid is returned when a namespace, UID or worker name cannot be part of a subject or key.
var ErrInvalid = errors.New("invalid name")

// ErrStale is returned when the holder of an item was silent for so long that another worker may hold it by now.
var ErrStale = errors.New("the work item may be another worker's by now")

// Options configure a Queue. The zero value of each field is a default.
type Options struct {
	// Stream is the JetStream stream's name; DefaultStream if empty.
	Stream string
	// Replicas is 1 or an odd number up to 5; 1 if zero.
	Replicas int
	// AckWait is how long an item's holder may be silent before the item is delivered again; 30 s if zero. Holders
	// call InProgress at a third of it.
	AckWait time.Duration
	// APITimeout bounds one request to the server; 5 s if zero.
	APITimeout time.Duration
	Logger     *slog.Logger
}

// pullBeat is how often the server tells that a pull request still stands there; two missed ones end it.
const pullBeat = time.Second

// maxHeld is how many items may be held at once by all workers.
const maxHeld = 100_000

// Queue is a worker.Queue on a JetStream work-queue stream. It may be used by many goroutines.
type Queue struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	opts Options
	log  *slog.Logger
	// consumer is what the last fetch used; nil before the first and after a failure.
	consumer atomic.Pointer[jetstream.Consumer]
}

var _ worker.Queue = (*Queue)(nil)

// New returns a queue that uses nc, which stays the caller's. The stream and its consumer are made by Ensure or Run.
func New(nc *nats.Conn, opts Options) (*Queue, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	if opts.Stream == "" {
		opts.Stream = DefaultStream
	}
	if opts.Replicas == 0 {
		opts.Replicas = 1
	}
	if opts.AckWait == 0 {
		opts.AckWait = 30 * time.Second
	}
	if opts.APITimeout == 0 {
		opts.APITimeout = 5 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Queue{nc: nc, js: js, opts: opts, log: opts.Logger}, nil
}

// Ensure makes the stream and its consumer or brings their settings up to date.
func (q *Queue) Ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, q.opts.APITimeout)
	defer cancel()
	stream, err := q.ensureStream(ctx)
	if err != nil {
		return fmt.Errorf("ensure stream %s: %w", q.opts.Stream, err)
	}
	consumer, err := stream.CreateOrUpdateConsumer(ctx, q.consumerConfig())
	if err == nil {
		err = q.mend(ctx, stream, consumer.CachedInfo())
	}
	if err != nil {
		return fmt.Errorf("ensure consumer of %s: %w", q.opts.Stream, err)
	}
	return nil
}

func (q *Queue) consumerConfig() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       consumerName,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       q.opts.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: maxHeld,
	}
}

// mend makes the consumer anew when it counts items as acknowledged that are in the stream: after a power failure a server may have
// forgotten messages, and others have taken their places, or only that they were removed. Such items would never be delivered,
// and nobody could put them again. Items that are held are delivered again, which their holders or their runs' events sort out.
func (q *Queue) mend(ctx context.Context, stream jetstream.Stream, seen *jetstream.ConsumerInfo) error {
	for try := 0; ; try++ {
		info, err := stream.Info(ctx)
		if err != nil || info.State.Msgs == 0 || info.State.FirstSeq > seen.AckFloor.Stream {
			return err
		}
		if try > 0 {
			break
		}
		if !pause(ctx) { // an acknowledgement and the removal that follows it are not one step
			return ctx.Err()
		}
		consumer, err := stream.Consumer(ctx, consumerName)
		if err != nil {
			return err
		}
		seen = consumer.CachedInfo()
	}
	q.log.Error("the work queue has items that its consumer takes for acknowledged; it is made anew", "stream", q.opts.Stream, "acknowledged", seen.AckFloor.Stream)
	if err := stream.DeleteConsumer(ctx, consumerName); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	_, err := stream.CreateOrUpdateConsumer(ctx, q.consumerConfig())
	return err
}

// ensureStream keeps what others configured beside the settings that the queue rests on, such as placement.
func (q *Queue) ensureStream(ctx context.Context) (jetstream.Stream, error) {
	var cfg jetstream.StreamConfig
	stream, err := q.js.Stream(ctx, q.opts.Stream)
	switch {
	case err == nil:
		cfg = stream.CachedInfo().Config
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, err
	}
	cfg.Name = q.opts.Stream
	cfg.Description = "agentloop runs that need a worker"
	cfg.Subjects = []string{workRoot + ">"}
	cfg.Retention = jetstream.WorkQueuePolicy
	cfg.Storage = jetstream.FileStorage
	cfg.Replicas = q.opts.Replicas
	cfg.Discard = jetstream.DiscardNew
	cfg.DiscardNewPerSubject = true
	cfg.MaxMsgsPerSubject = 1
	cfg.MaxAge = 0
	return q.js.CreateOrUpdateStream(ctx, cfg)
}

// Run ensures stream and consumer now and after each reconnect until ctx ends. It returns nil then.
func (q *Queue) Run(ctx context.Context) error {
	connected := q.nc.StatusChanged(nats.CONNECTED)
	defer q.nc.RemoveStatusListener(connected)
	for {
		if err := q.Ensure(ctx); err != nil && ctx.Err() == nil {
			q.log.Warn("work queue could not be ensured", "stream", q.opts.Stream, "error", err)
			if pause(ctx) {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-connected:
		}
	}
}

// pause waits before something is tried again; false when ctx ended.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Put adds an item. added is false, without an error, when the run has one already, waiting or held: that one is as good,
// because whoever takes it looks at the resource. After an error the same Put may be repeated.
func (q *Queue) Put(ctx context.Context, item worker.Item) (added bool, err error) {
	subject, err := workSubject(item.Namespace, item.RunUID)
	if err != nil {
		return false, err
	}
	body, err := json.Marshal(item)
	if err != nil {
		return false, fmt.Errorf("put work item: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, q.opts.APITimeout)
	defer cancel()
	// No message id: the run may need a worker again within the duplicate window.
	_, err = q.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: body}, jetstream.WithExpectStream(q.opts.Stream))
	if err == nil {
		return true, nil
	}
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == codeNotStored {
		// The code stands for every limit of the stream; only one of them is not a failure.
		if has, hasErr := q.Has(ctx, item.Namespace, item.RunUID); hasErr == nil && has {
			return false, nil
		}
	}
	return false, fmt.Errorf("put work item: %w", err)
}

// Has says whether the run has an item, waiting or held. The stream's leader answers.
func (q *Queue) Has(ctx context.Context, namespace, runUID string) (bool, error) {
	subject, err := workSubject(namespace, runUID)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, q.opts.APITimeout)
	defer cancel()
	stream, err := q.js.Stream(ctx, q.opts.Stream)
	if err != nil {
		return false, fmt.Errorf("look for work item: %w", err)
	}
	_, err = stream.GetLastMsgForSubject(ctx, subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for work item: %w", err)
	}
	return true, nil
}

// Remove takes a run's item out of the queue, also when it is held. It may be repeated.
func (q *Queue) Remove(ctx context.Context, namespace, runUID string) error {
	subject, err := workSubject(namespace, runUID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, q.opts.APITimeout)
	defer cancel()
	stream, err := q.js.Stream(ctx, q.opts.Stream)
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	if err != nil {
		return fmt.Errorf("remove work item: %w", err)
	}
	return nil
}

// Fetch implements worker.Queue. It waits through outages of the server, and makes stream and consumer again when they
// are gone. An item that cannot be read is taken out of the queue and logged.
func (q *Queue) Fetch(ctx context.Context) (worker.Delivery, error) {
	warned := false
	for {
		msg, err := q.next(ctx)
		switch {
		case err == nil:
			if delivery, ok := q.accept(ctx, msg); ok {
				return delivery, nil
			}
			continue
		case ctx.Err() != nil:
			return nil, fmt.Errorf("fetch work item: %w", ctx.Err())
		case errors.Is(err, errNothing):
			continue
		}
		q.consumer.Store(nil)
		if !warned {
			warned = true
			q.log.Warn("work queue does not answer, trying again", "error", err)
		}
		if gone(err) {
			err = q.Ensure(ctx)
		}
		if err != nil && !pause(ctx) {
			return nil, fmt.Errorf("fetch work item: %w", ctx.Err())
		}
	}
}

func gone(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, nats.ErrNoResponders)
}

// errNothing is returned when a pull request ended without an item.
var errNothing = errors.New("no work item")

// next sends one pull request. The server drops it when ctx ends, so that no item goes to a worker that is leaving.
func (q *Queue) next(ctx context.Context) (jetstream.Msg, error) {
	consumer := q.consumer.Load()
	if consumer == nil {
		lookup, cancel := context.WithTimeout(ctx, q.opts.APITimeout)
		defer cancel()
		found, err := q.js.Consumer(lookup, q.opts.Stream, consumerName)
		if err != nil {
			return nil, err
		}
		consumer = &found
		q.consumer.Store(consumer)
	}
	// Without ctx's deadline, which would shorten the pull below what a heartbeat needs; its end still ends the pull.
	pull, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	msg, err := (*consumer).Next(jetstream.FetchContext(pull), jetstream.FetchHeartbeat(pullBeat))
	if errors.Is(err, nats.ErrTimeout) {
		return nil, errNothing
	}
	return msg, err
}

// accept reads what a message asks for.
func (q *Queue) accept(ctx context.Context, msg jetstream.Msg) (*Delivery, bool) {
	var item worker.Item
	err := json.Unmarshal(msg.Data(), &item)
	if subject, nameErr := workSubject(item.Namespace, item.RunUID); err == nil && (nameErr != nil || subject != msg.Subject()) {
		err = fmt.Errorf("%w: the item does not belong to its subject", ErrInvalid)
	}
	var meta *jetstream.MsgMetadata
	if err == nil {
		meta, err = msg.Metadata()
	}
	if err != nil {
		q.log.Error("a work item that cannot be read was removed", "subject", msg.Subject(), "error", err)
		if err := msg.TermWithReason("unreadable"); err != nil {
			q.log.Warn("unreadable work item stays", "subject", msg.Subject(), "error", err)
			pause(ctx)
		}
		return nil, false
	}
	return &Delivery{queue: q, msg: msg, item: item, deliveries: int(meta.NumDelivered), heard: time.Now()}, true
}

var subjectPart = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,253}$`)

func checkParts(parts ...string) error {
	for _, part := range parts {
		if !subjectPart.MatchString(part) {
			return fmt.Errorf("%w: %.80q", ErrInvalid, part)
		}
	}
	return nil
}

func workSubject(namespace, runUID string) (string, error) {
	if err := checkParts(namespace, runUID); err != nil {
		return "", err
	}
	return workRoot + namespace + "." + runUID, nil
}
