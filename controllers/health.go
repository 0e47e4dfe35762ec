package controllers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// downAfter is how many probes in a row must fail before something counts as away: each change is written to every
// session.
const downAfter = 2

// Health watches the object store and the run-event log, so that conditions can say which of them is away although
// reconciling never talks to either.
type Health struct {
	Log    runevent.Log
	Store  cas.Store
	Logger *slog.Logger
	// Interval is how often both are probed; Timeout bounds one probe.
	Interval, Timeout time.Duration
	// Fill says how full the log is; nil where that is not known.
	Fill Fill
	// Notify is called when an answer changed.
	Notify func()

	filling filling

	mu              sync.Mutex
	storage, stream int // failed probes in a row
}

// Down says which of the two did not answer the last probes.
func (h *Health) Down() (storage, stream bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.storage >= downAfter, h.stream >= downAfter
}

// Filling says whether the log is nearly full.
func (h *Health) Filling() bool { return h.filling.is() }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (h *Health) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (h *Health) Start(ctx context.Context) error {
	ticker := time.NewTicker(h.Interval)
	defer ticker.Stop()
	for {
		h.probe(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// probeScope and probeStream name nothing that any session can have.
var (
	probeScope  = cas.Scope{Namespace: "agentloop-probe", Session: "none"}
	probeStream = runevent.Stream{Class: runevent.ClassRun, Namespace: "agentloop-probe", Session: "none", Key: runevent.MainAgent}
)

// probe asks both at once, so that one that is slow takes no time from the other.
func (h *Health) probe(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	var storeErr, logErr error
	var probes sync.WaitGroup
	probes.Go(func() { _, storeErr = h.Store.Get(bounded, probeScope, cas.Ref{Digest: cas.Of(nil)}) })
	probes.Go(func() { _, logErr = h.Log.Last(bounded, probeStream) })
	probes.Wait()
	if ctx.Err() != nil {
		return
	}
	if errors.Is(storeErr, cas.ErrNotFound) {
		storeErr = nil
	}
	wasStorage, wasStream := h.Down()
	h.mu.Lock()
	h.storage, h.stream = failures(h.storage, storeErr), failures(h.stream, logErr)
	h.mu.Unlock()
	storage, stream := h.Down()
	changed := logErr == nil && h.filling.observe(ctx, h.Fill, h.Timeout)
	if storage == wasStorage && stream == wasStream && !changed {
		return
	}
	h.Logger.Info("store health changed", "storageDown", storage, "streamDown", stream, "streamFilling", h.Filling())
	h.Notify()
}

func failures(before int, err error) int {
	if err == nil {
		return 0
	}
	return before + 1
}
