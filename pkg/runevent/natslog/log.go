package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/runevent"
)

// DefaultStream is the name of the JetStream stream.
const DefaultStream = "AGENTLOOP_RUN"

// Options configure a Log. The zero value of each field is a default.
type Options struct {
	// Stream is the JetStream stream's name; DefaultStream if empty.
	Stream string
	// Replicas is 1 or an odd number up to 5; 1 if zero. Production has 3.
	Replicas int
	// MaxBytes bounds the stream; a full one refuses appends, it never drops old entries. Without a bound if zero.
	MaxBytes int64
	// APITimeout bounds one request to the server, not the calls, which go on until their context ends; 5 s if zero.
	APITimeout time.Duration
	// Logger hears of appends that had to be repeated; nothing is logged if nil.
	Logger *slog.Logger
}

// duplicates is the window in which the server knows message ids. Correctness does not rest on it.
const duplicates = 2 * time.Minute

// readHints is for how many streams the place where the last read ended is remembered.
const readHints = 4096

// Log is a runevent.Log on JetStream. It may be used by many goroutines; appends to one stream must not overlap.
type Log struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	opts  Options
	log   *slog.Logger
	hints *lru.Cache[runevent.Stream, hint]
	// strides remembers where entries stand that are a multiple of runevent.Stride.
	strides *lru.Cache[stride, uint64]
	// noSweep is the Unix time in nanoseconds before which no sweep is tried.
	noSweep atomic.Int64
}

var _ runevent.Log = (*Log)(nil)

// New returns a log that uses nc, which stays the caller's. The stream is made by Ensure or Run.
func New(nc *nats.Conn, opts Options) (*Log, error) {
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
	if opts.MaxBytes == 0 {
		opts.MaxBytes = -1
	}
	if opts.APITimeout == 0 {
		opts.APITimeout = 5 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	hints, err := lru.New[runevent.Stream, hint](readHints)
	if err != nil {
		return nil, err
	}
	strides, err := lru.New[stride, uint64](readStrides)
	if err != nil {
		return nil, err
	}
	return &Log{nc: nc, js: js, opts: opts, log: opts.Logger, hints: hints, strides: strides}, nil
}

// Ensure makes the JetStream stream or brings its settings up to date. What others configured beside the settings that
// the log rests on, such as placement, stays.
func (l *Log) Ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.opts.APITimeout)
	defer cancel()
	stream, err := l.js.Stream(ctx, l.opts.Stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		_, err = l.js.CreateStream(ctx, l.configure(jetstream.StreamConfig{}))
	case err == nil:
		if current := stream.CachedInfo().Config; !l.configured(current) {
			_, err = l.js.UpdateStream(ctx, l.configure(current))
		}
	}
	if err != nil {
		return fmt.Errorf("ensure stream %s: %w", l.opts.Stream, err)
	}
	return nil
}

func (l *Log) configure(cfg jetstream.StreamConfig) jetstream.StreamConfig {
	cfg.Name = l.opts.Stream
	cfg.Description = "agentloop run events"
	cfg.Subjects = []string{subjectRoot + string(runevent.ClassRun) + ".>", subjectRoot + string(runevent.ClassOut) + ".>"}
	cfg.Retention = jetstream.LimitsPolicy
	cfg.Storage = jetstream.FileStorage
	cfg.Discard = jetstream.DiscardNew
	cfg.Replicas = l.opts.Replicas
	cfg.MaxBytes = l.opts.MaxBytes
	cfg.MaxMsgs, cfg.MaxMsgsPerSubject, cfg.MaxAge = -1, -1, 0
	cfg.MaxMsgSize = runevent.MaxMessage
	cfg.Duplicates = duplicates
	cfg.AllowDirect = true
	cfg.DenyDelete = true
	return cfg
}

// configured says whether the settings that matter are as configure would have them.
func (l *Log) configured(have jetstream.StreamConfig) bool {
	want := l.configure(have)
	return slices.Equal(have.Subjects, want.Subjects) &&
		have.Retention == want.Retention && have.Storage == want.Storage && have.Discard == want.Discard &&
		have.Replicas == want.Replicas && have.MaxBytes == want.MaxBytes && have.MaxMsgs == want.MaxMsgs &&
		have.MaxMsgsPerSubject == want.MaxMsgsPerSubject && have.MaxAge == want.MaxAge && have.MaxMsgSize == want.MaxMsgSize &&
		have.Duplicates == want.Duplicates && have.AllowDirect && have.DenyDelete
}

// Run ensures the stream now and after each reconnect until ctx ends. It returns nil then.
func (l *Log) Run(ctx context.Context) error {
	connected := l.nc.StatusChanged(nats.CONNECTED)
	defer l.nc.RemoveStatusListener(connected)
	for {
		if err := l.ensureUntil(ctx); err != nil {
			return nil // ctx ended
		}
		select {
		case <-ctx.Done():
			return nil
		case <-connected:
		}
	}
}

func (l *Log) ensureUntil(ctx context.Context) error {
	var wait backoff
	for {
		err := l.Ensure(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			l.log.Warn("run-event stream could not be ensured", "stream", l.opts.Stream, "error", err)
		}
		if !wait.pause(ctx) {
			return ctx.Err()
		}
	}
}

// api sends one request to the JetStream API and decodes its answer into out. An answer that holds an error is returned
// as *jetstream.APIError, anything else that goes wrong as it came.
func (l *Log) api(ctx context.Context, operation string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, l.opts.APITimeout)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	answer, err := l.nc.RequestWithContext(ctx, jetstream.DefaultAPIPrefix+operation+"."+l.opts.Stream, body)
	if err != nil {
		return err
	}
	var failed struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &failed); err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	if failed.Error != nil {
		return failed.Error
	}
	return json.Unmarshal(answer.Data, out)
}

// patiently repeats call, which must be idempotent, until it succeeds, fails for good, or ctx ends.
func (l *Log) patiently(ctx context.Context, what string, call func(context.Context) error) error {
	var wait backoff
	for {
		err := call(ctx)
		if err == nil {
			return nil
		}
		if errors.Is(err, errFinal) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if !wait.pause(ctx) {
			return fmt.Errorf("%s: %w: %w (%w)", what, runevent.ErrUnavailable, err, ctx.Err())
		}
	}
}

// errFinal is wrapped by errors that a repeated request would only meet again.
var errFinal = errors.New("refused by the log")

func code(err error) jetstream.ErrorCode {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}
