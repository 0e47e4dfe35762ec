// Package natslimits shares among all workers, through a NATS key-value bucket, what model providers allow.
//
// Guarantees: in no window of a minute more requests or estimated input tokens get their turn than a provider allows, and
// no more requests hold one at once; the requests of a provider get their turns in the order in which they came into the
// line; what a worker holds that is gone comes back within its lease; while the bucket cannot be read and written nobody
// gets a turn. Clocks of workers are compared with the server's and need not agree.
package natslimits

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/agent"
)

// DefaultBucket is the name of the bucket that holds one key per provider.
const DefaultBucket = "AGENTLOOP_LIMITS"

// maxPostpone bounds how long a provider can keep all workers waiting by one answer.
const maxPostpone = 10 * time.Minute

// forget is how long the bucket keeps what nobody writes any more.
const forget = time.Hour

// ErrClosed is returned when Limits were closed.
var ErrClosed = errors.New("limits closed")

// Options configure Limits. The zero value of each field but Worker is a default.
type Options struct {
	// Worker names this worker in the bucket.
	Worker string
	// Bucket is the key-value bucket's name; DefaultBucket if empty.
	Bucket string
	// Replicas is 1 or an odd number up to 5; 1 if zero.
	Replicas int
	// APITimeout bounds one request to the server; 5 s if zero.
	APITimeout time.Duration
	// Lease is how long a silent worker keeps its turns; 30 s if zero. All workers should have the same.
	Lease time.Duration
	// Window is the minute of the limits; a minute if zero. All workers must have the same.
	Window time.Duration
	// Patience is how long a request waits before it says so; 1 s if zero.
	Patience time.Duration
	// Now is this machine's clock; time.Now if nil.
	Now    func() time.Time
	Logger *slog.Logger
}

// Limits shares what providers allow. It implements agent.Limits.
type Limits struct {
	js   jetstream.JetStream
	opts Options
	// me is this process: one that is started again has nothing of the earlier one.
	me  string
	ctx context.Context //nolint:containedctx // of the goroutines, from New to Close
	end context.CancelFunc
	// working are the goroutines, one per provider that is in use and short ones that read limits anew.
	working sync.WaitGroup

	mu    sync.Mutex
	lines map[string]*line
}

var _ agent.Limits = (*Limits)(nil)

// New returns what is kept behind nc, which stays the caller's. The first request of a provider with limits makes the bucket.
func New(nc *nats.Conn, opts Options) (*Limits, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	if opts.Bucket == "" {
		opts.Bucket = DefaultBucket
	}
	if opts.Replicas == 0 {
		opts.Replicas = 1
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&opts.APITimeout, 5 * time.Second}, {&opts.Lease, 30 * time.Second}, {&opts.Window, time.Minute}, {&opts.Patience, time.Second}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Limits{js: js, opts: opts, me: opts.Worker + "." + rand.Text()[:8], lines: map[string]*line{}}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l, nil
}

// Close gives back what this worker holds and ends all waits. Call it when no request is under way any more.
func (l *Limits) Close() {
	l.mu.Lock()
	l.end()
	l.mu.Unlock()
	l.working.Wait()
}

// keyName is the key of a provider.
func keyName(quota agent.Quota) string {
	encode := base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString
	return encode([]byte(quota.Namespace)) + "." + encode([]byte(quota.Provider))
}

// join puts a request into the line of its provider, or does something else with it.
func (l *Limits) join(quota agent.Quota, do func(*line)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return ErrClosed
	}
	key := keyName(quota)
	at := l.lines[key]
	if at == nil {
		at = &line{limits: l, key: key, provider: quota.Provider, poke: make(chan struct{}, 1)}
		l.lines[key] = at
		l.working.Go(func() { at.run(l.ctx) })
	}
	at.mu.Lock()
	if quota.Generation >= at.quota.Generation {
		at.quota = quota
	}
	do(at)
	at.mu.Unlock()
	at.wake()
	return nil
}

// leave takes a line that nobody needs off the map. It returns false when somebody has come meanwhile.
func (l *Limits) leave(at *line) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.busy() {
		return false
	}
	delete(l.lines, at.key)
	return true
}

// Acquire implements agent.Limits.
func (l *Limits) Acquire(ctx context.Context, a agent.Ask) (release func(), err error) {
	if a.Quota.Unlimited() {
		return func() {}, nil
	}
	mine := &ask{tokens: a.Tokens, atOnce: a.AtOnce, current: a.Current, settled: make(chan struct{})}
	var at *line
	if err := l.join(a.Quota, func(to *line) { at = to; to.asks = append(to.asks, mine) }); err != nil {
		return nil, err
	}
	release = sync.OnceFunc(func() { at.give(mine) })
	patience := time.NewTimer(l.opts.Patience)
	defer patience.Stop()
	for err == nil {
		select {
		case <-mine.settled:
			if mine.refused {
				return nil, agent.ErrNoTurn
			}
			if ctx.Err() == nil {
				return release, nil
			}
			err = ctx.Err()
		case <-ctx.Done():
			err = ctx.Err()
		case <-l.ctx.Done():
			err = ErrClosed
		case <-patience.C:
			if a.Waits != nil {
				err = a.Waits()
			}
		}
	}
	release()
	return nil, err
}

// Postpone implements agent.Limits. It does not wait for the others to be told.
func (l *Limits) Postpone(_ context.Context, quota agent.Quota, wait time.Duration) {
	err := l.join(quota, func(at *line) { at.pause = max(at.pause, min(wait, maxPostpone)) })
	if err != nil {
		l.opts.Logger.Debug("others are not told to wait", "provider", quota.Provider, "error", err)
	}
}

// bucket makes the bucket when it is missing, and tells the server's time.
func (l *Limits) bucket(ctx context.Context) (jetstream.KeyValue, time.Time, error) {
	kv, err := l.js.KeyValue(ctx, l.opts.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = l.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: l.opts.Bucket, Description: "whose turn it is at model providers with limits", History: 1,
			Storage: jetstream.FileStorage, Replicas: l.opts.Replicas, TTL: max(forget, 4*l.opts.Window),
		})
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	bucket, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok || bucket.StreamInfo().TimeStamp.IsZero() {
		return nil, time.Time{}, errors.New("the server does not tell its time")
	}
	return kv, bucket.StreamInfo().TimeStamp, nil
}

// ask is a request of this worker. The fields are the line's, and settled is closed when it has its turn or is refused.
type ask struct {
	tokens  int64
	atOnce  bool
	current func(context.Context) (agent.Quota, error)
	settled chan struct{}
	refused bool
	// n is the number that the bucket has, or is being given, for the request; stored says that it has it, tried that the
	// request was looked at.
	n             uint64
	stored, tried bool
}

// give takes a request out of the line, whether it has its turn or waits.
func (at *line) give(mine *ask) {
	at.mu.Lock()
	at.asks = slices.DeleteFunc(at.asks, func(a *ask) bool { return a == mine })
	at.held = slices.DeleteFunc(at.held, func(a *ask) bool { return a == mine })
	at.mu.Unlock()
	at.wake()
}
