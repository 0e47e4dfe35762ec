package natsqueue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/worker"
)

// The answers of JetStream's acknowledgement protocol.
const (
	ackDone     = "+ACK"
	ackProgress = "+WPI"
	ackAgain    = `-NAK {"delay": %d}`
)

// Delivery is an item that this process holds. The server takes an acknowledgement from anybody who ever held the item,
// also when it was delivered to another worker since; so a Delivery keeps the time itself and refuses with ErrStale once
// the server has not confirmed the hold for AckWait. It may be used by several goroutines.
type Delivery struct {
	queue      *Queue
	msg        jetstream.Msg
	item       worker.Item
	deliveries int

	mu sync.Mutex
	// heard is the latest time at which the hold is known to have begun anew.
	heard time.Time
}

var _ worker.Delivery = (*Delivery)(nil)

// Item returns what the item asks for.
func (d *Delivery) Item() worker.Item { return d.item }

// Deliveries is how often the item was delivered, this time included. Attempts of a run are not counted by it but in
// the run's events: an item that was handed back was no attempt.
func (d *Delivery) Deliveries() int { return d.deliveries }

// InProgress extends the hold by AckWait and returns when the server has confirmed that.
func (d *Delivery) InProgress(ctx context.Context) error {
	return d.tell(ctx, "extend work item", ackProgress)
}

// Ack removes the item for good and returns when the server has confirmed that.
func (d *Delivery) Ack(ctx context.Context) error {
	return d.tell(ctx, "acknowledge work item", ackDone)
}

// Nak gives the item back, to be delivered again after delay.
func (d *Delivery) Nak(ctx context.Context, delay time.Duration) error {
	return d.tell(ctx, "give work item back", fmt.Sprintf(ackAgain, max(delay, time.Nanosecond).Nanoseconds()))
}

func (d *Delivery) tell(ctx context.Context, what, answer string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, d.queue.opts.APITimeout)
	defer cancel()
	sent := time.Now()
	if silent := sent.Sub(d.heard); silent >= d.queue.opts.AckWait {
		return fmt.Errorf("%s: %w: no word from its holder for %s", what, ErrStale, silent.Round(time.Millisecond))
	}
	if _, err := d.queue.nc.RequestWithContext(ctx, d.msg.Reply(), []byte(answer)); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	d.heard = sent // the server's wait began after this
	return nil
}
