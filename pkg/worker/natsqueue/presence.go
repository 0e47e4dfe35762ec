package natsqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// DefaultBucket is the name of the bucket that holds one key per worker.
const DefaultBucket = "AGENTLOOP_WORKERS"

// WorkerInfo is what a worker tells about itself.
type WorkerInfo struct {
	StartedAt time.Time `json:"startedAt"`
	Version   string    `json:"version,omitempty"`
	// Running is the number of runs that it executes, Capacity how many it would.
	Running  int `json:"running"`
	Capacity int `json:"capacity"`
}

// PresenceOptions configure a Presence. The zero value of each field is a default.
type PresenceOptions struct {
	// Bucket is the key-value bucket's name; DefaultBucket if empty.
	Bucket string
	// Replicas is 1 or an odd number up to 5; 1 if zero.
	Replicas int
	// TTL is how long a worker counts as alive after a beat; 20 s if zero. Workers beat at half of it.
	TTL time.Duration
	// APITimeout bounds one request to the server; 5 s if zero.
	APITimeout time.Duration
	Logger     *slog.Logger
}

// Presence says which workers are alive. A beat is written to the server's disk, so that one that succeeds also shows
// that the server can store: a full disk is seen nowhere else.
type Presence struct {
	js   jetstream.JetStream
	opts PresenceOptions
}

// NewPresence returns the presence that is kept behind nc, which stays the caller's. Beat makes the bucket.
func NewPresence(nc *nats.Conn, opts PresenceOptions) (*Presence, error) {
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
	if opts.TTL == 0 {
		opts.TTL = 20 * time.Second
	}
	if opts.APITimeout == 0 {
		opts.APITimeout = 5 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Presence{js: js, opts: opts}, nil
}

// Ensure makes the bucket or brings its settings up to date.
func (p *Presence) Ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.opts.APITimeout)
	defer cancel()
	_, err := p.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket:      p.opts.Bucket,
		Description: "agentloop workers that are alive",
		TTL:         p.opts.TTL,
		History:     1,
		Storage:     jetstream.FileStorage,
		Replicas:    p.opts.Replicas,
	})
	if err != nil {
		return fmt.Errorf("ensure bucket %s: %w", p.opts.Bucket, err)
	}
	return nil
}

// bucket makes the bucket when it is missing, as after a server lost its store.
func (p *Presence) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := p.js.KeyValue(ctx, p.opts.Bucket)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return kv, err
	}
	if err := p.Ensure(ctx); err != nil {
		return nil, err
	}
	return p.js.KeyValue(ctx, p.opts.Bucket)
}

// Beat says that the worker is alive. It returns when the server has stored it. A worker's id is made of letters,
// digits, '-', '_' and inner dots.
func (p *Presence) Beat(ctx context.Context, workerID string, info WorkerInfo) error {
	ctx, cancel := context.WithTimeout(ctx, p.opts.APITimeout)
	defer cancel()
	value, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("presence of %s: %w", workerID, err)
	}
	kv, err := p.bucket(ctx)
	if err == nil {
		_, err = kv.Put(ctx, workerID, value)
	}
	if err != nil {
		return fmt.Errorf("presence of %s: %w", workerID, err)
	}
	return nil
}

// Leave says that the worker has ended, so that nobody waits for its TTL.
func (p *Presence) Leave(ctx context.Context, workerID string) error {
	ctx, cancel := context.WithTimeout(ctx, p.opts.APITimeout)
	defer cancel()
	kv, err := p.bucket(ctx)
	if err == nil {
		err = kv.Delete(ctx, workerID)
	}
	if err != nil {
		return fmt.Errorf("presence of %s: %w", workerID, err)
	}
	return nil
}

// Alive returns the workers that have beaten within the TTL. An error means that it is not known who is alive, which is
// not the same as nobody.
func (p *Presence) Alive(ctx context.Context) (map[string]WorkerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.APITimeout)
	defer cancel()
	kv, err := p.bucket(ctx)
	if err != nil {
		return nil, fmt.Errorf("who is alive: %w", err)
	}
	watcher, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("who is alive: %w", err)
	}
	defer func() { _ = watcher.Stop() }() // fails only on a closed connection
	alive := map[string]WorkerInfo{}
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("who is alive: %w", ctx.Err())
		case entry, ok := <-watcher.Updates():
			if !ok {
				return nil, errors.New("who is alive: the connection was closed")
			}
			if entry == nil {
				return alive, nil
			}
			var info WorkerInfo
			if err := json.Unmarshal(entry.Value(), &info); err != nil {
				p.opts.Logger.Warn("presence that cannot be read", "worker", entry.Key(), "error", err)
			}
			alive[entry.Key()] = info // alive all the same: the key says so
		}
	}
}
