package natsqueue

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go"
)

const (
	liveRoot    = "agentloop.live."
	cancelToken = "cancel"
)

// maxLive bounds a live event in bytes. What is larger belongs into the log.
const maxLive = 64 << 10

// Live sends what need not be kept: cancels that workers hear at once, and events such as context_budget for whoever is
// looking. Nothing is stored and nothing is confirmed; the run's resource and the log say what holds.
type Live struct {
	nc  *nats.Conn
	log *slog.Logger
}

// NewLive returns the live side of nc, which stays the caller's.
func NewLive(nc *nats.Conn, logger *slog.Logger) *Live {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Live{nc: nc, log: logger}
}

// Cancel names the run that is to end.
type Cancel struct {
	Namespace string
	Session   string // the AgentSession's UID
	RunUID    string
}

// SendCancel tells the worker that executes the run, if there is one, that it is to look at the run's resource now.
func (l *Live) SendCancel(c Cancel) error {
	if err := checkParts(c.Namespace, c.Session, c.RunUID); err != nil {
		return err
	}
	subject := liveRoot + c.Namespace + "." + c.Session + "." + cancelToken + "." + c.RunUID
	if err := l.nc.Publish(subject, nil); err != nil {
		return fmt.Errorf("send cancel: %w", err)
	}
	return nil
}

// OnCancel calls fn, from one goroutine, for every cancel of any run until stop is called. The subscription outlives
// reconnects.
func (l *Live) OnCancel(fn func(Cancel)) (stop func(), err error) {
	sub, err := l.nc.Subscribe(liveRoot+"*.*."+cancelToken+".*", func(msg *nats.Msg) {
		parts := strings.Split(msg.Subject, ".")
		fn(Cancel{Namespace: parts[2], Session: parts[3], RunUID: parts[5]})
	})
	if err != nil {
		return nil, fmt.Errorf("listen for cancels: %w", err)
	}
	return l.stopper(sub), nil
}

// Send publishes a live event, a JSON object, of a session's agent.
func (l *Live) Send(namespace, session, agentKey string, event any) error {
	if err := checkParts(namespace, session, agentKey); err != nil {
		return err
	}
	body, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("send live event: %w", err)
	}
	if len(body) > maxLive {
		return fmt.Errorf("send live event: %d bytes, at most %d", len(body), maxLive)
	}
	if err := l.nc.Publish(liveRoot+namespace+"."+session+"."+agentKey, body); err != nil {
		return fmt.Errorf("send live event: %w", err)
	}
	return nil
}

// OnEvent calls fn, from one goroutine, for every live event of a session until stop is called.
func (l *Live) OnEvent(namespace, session string, fn func(agentKey string, event json.RawMessage)) (stop func(), err error) {
	if err := checkParts(namespace, session); err != nil {
		return nil, err
	}
	sub, err := l.nc.Subscribe(liveRoot+namespace+"."+session+".*", func(msg *nats.Msg) {
		if json.Valid(msg.Data) {
			fn(msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:], msg.Data)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for live events: %w", err)
	}
	return l.stopper(sub), nil
}

func (l *Live) stopper(sub *nats.Subscription) func() {
	return func() {
		if err := sub.Unsubscribe(); err != nil {
			l.log.Debug("subscription was gone already", "subject", sub.Subject, "error", err)
		}
	}
}
