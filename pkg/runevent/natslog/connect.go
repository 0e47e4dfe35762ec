package natslog

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// ConnectOptions say how the connection is made that log, queue and presence share.
type ConnectOptions struct {
	// URL is one address or several with commas between.
	URL string
	// Name tells the server's operators who is connected.
	Name string
	// CredentialsFile and CAFile may be empty, and so may CertFile and KeyFile together: the certificate by which the
	// server knows this client, read anew for each connection.
	CredentialsFile   string
	CAFile            string
	CertFile, KeyFile string
	// Logger hears of lost and regained connections; nothing is logged if nil.
	Logger *slog.Logger
}

// pingEvery with two missed answers bounds how long a silent connection is believed.
const pingEvery = 5 * time.Second

// Connect returns a connection that reconnects for ever, also when the first attempt fails. While it is away, publishes
// fail at once: nothing is buffered, because a message that is sent late belongs to a decision that may be taken anew
// meanwhile. Close it when everything that uses it has ended.
func Connect(opts ConnectOptions) (*nats.Conn, error) {
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	options := []nats.Option{
		nats.Name(opts.Name),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(true),
		nats.IgnoreAuthErrorAbort(), // credentials are rotated: a refusal is not the end
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, time.Second),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			log.Warn("connection to NATS lost", "error", err)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("connected to NATS again", "server", nc.ConnectedServerName())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("NATS reported an error", "subject", subject, "error", err)
		}),
	}
	if opts.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(opts.CredentialsFile))
	}
	if opts.CAFile != "" {
		options = append(options, nats.RootCAs(opts.CAFile))
	}
	if opts.CertFile != "" {
		options = append(options, nats.ClientCert(opts.CertFile, opts.KeyFile))
	}
	nc, err := nats.Connect(opts.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return nc, nil
}

// backoff waits longer each time, up to a bound, with jitter from the caller's own progress: appenders of different
// streams fail at different times.
type backoff struct{ next time.Duration }

const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// pause returns false when ctx ended.
func (b *backoff) pause(ctx context.Context) bool {
	b.next = min(max(2*b.next, firstPause), lastPause)
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
