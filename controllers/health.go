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

// Health watches the object store and the run-event log, so that conditions can say which of them is away, or takes
// nothing any more, although reconciling never talks to either.
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
	// puts counts the objects that were put, untilPut the probes until the next one.
	puts, untilPut int

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

const (
	// putEvery is how many probes of the object store share one put, which costs more than a get: a put that failed is
	// tried again with each.
	putEvery = 3
	// probesKept is how many probe entries and objects there are before they are removed.
	probesKept = 100
)

// probe asks both at once, so that one that is slow takes no time from the other.
func (h *Health) probe(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	var storeErr, logErr error
	var probes sync.WaitGroup
	probes.Go(func() { storeErr = h.probeStore(bounded) })
	probes.Go(func() { logErr = h.probeLog(bounded) })
	probes.Wait()
	if ctx.Err() != nil {
		return
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
	h.Logger.Info("store health changed", "storageDown", storage, "streamDown", stream, "streamFilling", h.Filling(), "storageError", storeErr, "streamError", logErr)
	h.Notify()
}

// probeStore reads, and now and then writes: a store may answer and take nothing.
func (h *Health) probeStore(ctx context.Context) error {
	if _, err := h.Store.Get(ctx, probeScope, cas.Ref{Digest: cas.Of(nil)}); !errors.Is(err, cas.ErrNotFound) {
		return err
	}
	if h.untilPut--; h.untilPut > 0 {
		return nil
	}
	// What is put is another each time: a store need not take what it has.
	if _, err := h.Store.Put(ctx, probeScope, cas.MediaBlob, []byte(time.Now().Format(time.RFC3339Nano))); err != nil {
		return err
	}
	h.untilPut = putEvery
	if h.puts++; h.puts%probesKept == 1 {
		return h.Store.Purge(ctx, probeScope)
	}
	return nil
}

// probeLog appends an entry: a server whose disk is full answers every question, and stores nothing.
func (h *Health) probeLog(ctx context.Context) error {
	writer, last, err := runevent.OpenWriter(ctx, h.Log, runevent.WriterConfig{Stream: probeStream, Now: time.Now})
	if err != nil {
		return err
	}
	if last.Head.Sequence >= probesKept {
		return h.Log.Purge(ctx, probeStream.Namespace, probeStream.Session)
	}
	_, _, err = writer.Append(ctx, runevent.Event{Type: runevent.TypeBody, Text: "probe", Evidence: runevent.Evidence{AgentID: probeStream.Key}})
	if errors.Is(err, runevent.ErrFenced) {
		return nil // another leader's probe was stored, or removed, meanwhile
	}
	return err
}

func failures(before int, err error) int {
	if err == nil {
		return 0
	}
	return before + 1
}
