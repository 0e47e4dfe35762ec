package natsqueue

import (
	"context"
	"fmt"
)

// Backlog is how many items wait for a worker, and how many are held by one.
func (q *Queue) Backlog(ctx context.Context) (waiting, held int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, q.opts.APITimeout)
	defer cancel()
	consumer, err := q.js.Consumer(ctx, q.opts.Stream, consumerName)
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the work queue: %w", err)
	}
	info := consumer.CachedInfo()
	return int64(info.NumPending), int64(info.NumAckPending), nil
}
