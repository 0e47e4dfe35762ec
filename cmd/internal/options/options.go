// Package options holds the flag groups that the commands share. Flags have the last word, environment variables only
// carry secrets; whatever is wrong is said at the start with the flag's name.
package options

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/fsstore"
	"github.com/agentloop/agentloop/pkg/cas/known"
	"github.com/agentloop/agentloop/pkg/cas/recent"
	"github.com/agentloop/agentloop/pkg/cas/s3store"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
)

// NATS are the flags of the event log's server.
type NATS struct {
	URL, CredentialsFile, CAFile, CertFile, KeyFile, Stream string
	Replicas                                                int
	MaxBytes                                                int64
}

// Bind registers the flags of a program that reads or writes run events.
func (n *NATS) Bind(fs *flag.FlagSet) {
	fs.StringVar(&n.URL, "nats-url", "nats://127.0.0.1:4222", "NATS server, or several with commas between")
	fs.StringVar(&n.CredentialsFile, "nats-credentials-file", "", "file with NATS user credentials")
	fs.StringVar(&n.CAFile, "nats-ca-file", "", "PEM certificates that the NATS server's one is checked against")
	fs.StringVar(&n.CertFile, "nats-cert-file", "", "PEM certificate by which the NATS server knows this client; with --nats-key-file")
	fs.StringVar(&n.KeyFile, "nats-key-file", "", "PEM key of --nats-cert-file")
	fs.StringVar(&n.Stream, "nats-stream", natslog.DefaultStream, "name of the JetStream stream of run events")
}

// BindStreams registers the flags of a program that also makes the streams.
func (n *NATS) BindStreams(fs *flag.FlagSet) {
	fs.IntVar(&n.Replicas, "nats-replicas", 1, "replicas of the streams: 1 or 3; use 3 in production")
	fs.Int64Var(&n.MaxBytes, "nats-max-bytes", 0, "bound of the run-event stream in bytes; a full stream refuses appends; 0 for none")
}

// Connect dials the server and makes the log. The connection comes back by itself for ever.
func (n *NATS) Connect(name string, logger *slog.Logger) (*nats.Conn, *natslog.Log, error) {
	if (n.CertFile == "") != (n.KeyFile == "") {
		return nil, nil, errors.New("--nats-cert-file and --nats-key-file belong together")
	}
	nc, err := natslog.Connect(natslog.ConnectOptions{
		URL: n.URL, Name: name, CredentialsFile: n.CredentialsFile, CAFile: n.CAFile, CertFile: n.CertFile, KeyFile: n.KeyFile, Logger: logger,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("--nats-url %s: %w", n.URL, err)
	}
	log, err := natslog.New(nc, natslog.Options{Stream: n.Stream, Replicas: n.Replicas, MaxBytes: n.MaxBytes, Logger: logger})
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, log, nil
}

// Namespaces are the namespaces that a program is held to; none for all of them.
type Namespaces []string

// Bind registers the flag.
func (n *Namespaces) Bind(fs *flag.FlagSet) {
	fs.Func("namespaces", "`names` of the only namespaces that are looked at, with commas between; all when empty. May be given several times", func(list string) error {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name == "" {
				return errors.New("a name is empty")
			}
			if !slices.Contains(*n, name) {
				*n = append(*n, name)
			}
		}
		return nil
	})
}

// Store are the flags of the object store.
type Store struct {
	Kind, Dir                                    string
	Endpoint, Region, Bucket, Prefix, Addressing string
	CAFile, Encryption, KMSKey                   string
}

// Bind registers the flags.
func (s *Store) Bind(fs *flag.FlagSet) {
	fs.StringVar(&s.Kind, "store", "s3", "object store: s3, or fs for a folder")
	fs.StringVar(&s.Dir, "store-dir", "", "the folder of --store=fs")
	fs.StringVar(&s.Endpoint, "s3-endpoint", "", "URL of the S3 server; the account comes from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, else from the machine's identity")
	fs.StringVar(&s.Region, "s3-region", "us-east-1", "region that requests are signed for")
	fs.StringVar(&s.Bucket, "s3-bucket", "agentloop", "bucket")
	fs.StringVar(&s.Prefix, "s3-prefix", "", "put before every key")
	fs.StringVar(&s.Addressing, "s3-addressing", "", "where the bucket stands in URLs: path, or host for the host name; empty chooses by the endpoint")
	fs.StringVar(&s.CAFile, "s3-ca-file", "", "PEM certificates that are trusted besides the system's")
	fs.StringVar(&s.Encryption, "s3-encryption", "", "server-side encryption that the server must confirm: AES256 or aws:kms; empty for none")
	fs.StringVar(&s.KMSKey, "s3-kms-key", "", "key for --s3-encryption=aws:kms")
}

// S3 makes the S3 driver.
func (s *Store) S3(logger *slog.Logger) (*s3store.Store, error) {
	if s.Endpoint == "" {
		return nil, errors.New("--s3-endpoint is missing: name the S3 server, or use --store=fs with --store-dir")
	}
	opts := s3store.Options{
		Endpoint: s.Endpoint, Region: s.Region, Bucket: s.Bucket, Prefix: s.Prefix, Addressing: s3store.Addressing(s.Addressing),
		AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: os.Getenv("AWS_SESSION_TOKEN"),
		Encryption: s3store.Encryption(s.Encryption), KMSKey: s.KMSKey, Log: logger,
	}
	if s.CAFile != "" {
		var err error
		if opts.CABundle, err = os.ReadFile(s.CAFile); err != nil {
			return nil, fmt.Errorf("--s3-ca-file: %w", err)
		}
	}
	store, err := s3store.New(opts)
	if err != nil {
		return nil, fmt.Errorf("S3 options: %w", err)
	}
	return store, nil
}

// Driver is an object store that keeps archive files as well and can be swept.
type Driver interface {
	cas.Store
	cas.Archives
	cas.Aging
}

// Open makes the driver that the flags choose.
func (s *Store) Open(logger *slog.Logger) (Driver, error) {
	switch s.Kind {
	case "s3":
		return s.S3(logger)
	case "fs":
		if s.Dir == "" {
			return nil, errors.New("--store=fs needs --store-dir")
		}
		return fsstore.Open(s.Dir)
	}
	return nil, fmt.Errorf("--store=%s: use s3 or fs", s.Kind)
}

const (
	// recentMost is how many bytes of objects are remembered at most, and recentShare the part of the process's memory that
	// they may take where that is less.
	recentMost  = 16 << 20
	recentShare = 32
)

// Remembering gives a driver a memory of what was put, so that equal objects are written once and those that were just
// written or read are not read again. It takes no more of the process's memory than is good for it: see LimitMemory.
func Remembering(driver Driver) (cas.Store, error) {
	remembering, err := recent.New(driver, recent.Options{Bytes: min(recentMost, max(1<<20, debug.SetMemoryLimit(-1)/recentShare))})
	if err != nil {
		return nil, err
	}
	return known.New(remembering, known.Options{})
}

// Logging are the flags of the log output.
type Logging struct{ Level, Format string }

// Bind registers the flags.
func (l *Logging) Bind(fs *flag.FlagSet) {
	fs.StringVar(&l.Level, "log-level", "info", "debug, info, warn or error")
	fs.StringVar(&l.Format, "log-format", "json", "json or text")
}

// Logger makes the logger, which writes to standard error.
func (l *Logging) Logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return nil, fmt.Errorf("--log-level=%s: use debug, info, warn or error", l.Level)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch l.Format {
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, opts)), nil
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, opts)), nil
	}
	return nil, fmt.Errorf("--log-format=%s: use json or text", l.Format)
}

// Sleep waits or returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
