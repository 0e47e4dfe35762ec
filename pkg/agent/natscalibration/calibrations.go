// Package natscalibration keeps in a NATS key-value bucket what is known of models' real input counts.
//
// Guarantees: observations of several workers at once are all taken into account; nothing is written that is no count or
// ratio; a value that cannot be read is learnt anew.
package natscalibration

import (
	"context"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
)

// DefaultBucket is the name of the bucket that holds one key per model.
const DefaultBucket = "AGENTLOOP_CALIBRATION"

// maxTries bounds how often an observation is written again because another worker was faster.
const maxTries = 8

// Options configure Calibrations. The zero value of each field is a default.
type Options struct {
	// Bucket is the key-value bucket's name; DefaultBucket if empty.
	Bucket string
	// Replicas is 1 or an odd number up to 5; 1 if zero.
	Replicas int
	// APITimeout bounds one request to the server; 5 s if zero.
	APITimeout time.Duration
}

// Calibrations keeps what is known of models' real input counts. It implements agent.Calibrations.
type Calibrations struct {
	js   jetstream.JetStream
	opts Options
}

var _ agent.Calibrations = (*Calibrations)(nil)

// New returns what is kept behind nc, which stays the caller's. The first observation makes the bucket.
func New(nc *nats.Conn, opts Options) (*Calibrations, error) {
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
	if opts.APITimeout == 0 {
		opts.APITimeout = 5 * time.Second
	}
	return &Calibrations{js: js, opts: opts}, nil
}

// bucket makes the bucket when it is missing.
func (c *Calibrations) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := c.js.KeyValue(ctx, c.opts.Bucket)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return kv, err
	}
	return c.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: c.opts.Bucket, Description: "how agentloop's estimates relate to real input counts", History: 1,
		Storage: jetstream.FileStorage, Replicas: c.opts.Replicas,
	})
}

// keyName is the key of a model: its names may hold characters that keys do not have.
func keyName(key agent.ModelKey) string {
	encode := base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString
	return encode([]byte(key.Namespace)) + "." + encode([]byte(key.Provider)) + "." + encode([]byte(key.Model))
}

// Get implements agent.Calibrations. A model that nothing is known of has the zero value.
func (c *Calibrations) Get(ctx context.Context, key agent.ModelKey) (budget.Calibration, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.APITimeout)
	defer cancel()
	kv, err := c.bucket(ctx)
	if err != nil {
		return budget.Calibration{}, fmt.Errorf("read the calibration of %s: %w", key.Model, err)
	}
	known, _, err := read(ctx, kv, key)
	return known, err
}

// read returns what is known and the revision it has, 0 for none.
func read(ctx context.Context, kv jetstream.KeyValue, key agent.ModelKey) (budget.Calibration, uint64, error) {
	entry, err := kv.Get(ctx, keyName(key))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return budget.Calibration{}, 0, nil
	}
	if err != nil {
		return budget.Calibration{}, 0, fmt.Errorf("read the calibration of %s: %w", key.Model, err)
	}
	var known budget.Calibration
	if json.Unmarshal(entry.Value(), &known) != nil {
		known = budget.Calibration{} // it is learnt anew
	}
	return known, entry.Revision(), nil
}

// Learn implements agent.Calibrations.
func (c *Calibrations) Learn(ctx context.Context, key agent.ModelKey, measured budget.ContextBudget, used *message.Usage) (budget.Calibration, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.APITimeout)
	defer cancel()
	kv, err := c.bucket(ctx)
	if err != nil {
		return budget.Calibration{}, fmt.Errorf("write the calibration of %s: %w", key.Model, err)
	}
	for try := 1; ; try++ {
		known, revision, err := read(ctx, kv, key)
		if err != nil {
			return budget.Calibration{}, err
		}
		next := known.Observe(measured, used)
		if next == known {
			return known, nil
		}
		value, err := json.Marshal(next)
		if err != nil {
			return budget.Calibration{}, err
		}
		if revision == 0 {
			_, err = kv.Create(ctx, keyName(key), value)
		} else {
			_, err = kv.Update(ctx, keyName(key), value, revision)
		}
		if err == nil {
			return next, nil
		}
		if !lost(err) || try == maxTries {
			return budget.Calibration{}, fmt.Errorf("write the calibration of %s: %w", key.Model, err)
		}
	}
}

// lost says whether another worker was faster. One server says so in other words than three do.
func lost(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch)
}
