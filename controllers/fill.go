package controllers

import (
	"context"
	"sync"
	"time"
)

// fillAlarm is the share of the run-event log's limit from which on sessions say that it fills, fillCalm the one below which
// they stop: each change is written to every session.
const (
	fillAlarm = 0.85
	fillCalm  = 0.80
)

// filling knows whether the run-event log is nearly full.
type filling struct {
	mu  sync.Mutex
	now bool
}

// observe asks how full the log is and says whether the answer has changed. A log that does not answer has not.
func (f *filling) observe(ctx context.Context, fill Fill, timeout time.Duration) bool {
	if fill == nil {
		return false
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	used, limit, err := fill(bounded)
	if err != nil {
		return false
	}
	ratio := filled(used, limit)
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.now
	f.now = ratio >= fillAlarm || before && ratio >= fillCalm
	return f.now != before
}

func (f *filling) is() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}
