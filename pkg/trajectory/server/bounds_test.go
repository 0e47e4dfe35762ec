package server

import (
	"context"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/synthetic"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// stuckLog and stuckStore answer nothing as long as somebody waits.
type stuckLog struct{ trajectory.Log }

func (stuckLog) Streams(ctx context.Context, _, _ string) ([]runevent.Record, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

type stuckStore struct{ cas.Store }

func (stuckStore) Get(ctx context.Context, _ cas.Scope, _ cas.Ref) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (stuckStore) List(context.Context, cas.Scope, func(cas.Ref) error) error { return nil }

// TestEveryAnswerHasItsTime asks a server whose log, or whose store, never answers.
func TestEveryAnswerHasItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		paths  []string
	}{
		"the log": {func(o *Options) { o.Log = stuckLog{o.Log} }, []string{
			base, base + "/messages", base + "/trajectory", base + "/trajectory/detail?id=run.main.13", base + "/trajectory/text?id=run.main.13",
			base + "/trajectory/image?id=run.main.13&block=0", base + "/trajectory/export",
		}},
		"the store": {func(o *Options) { o.Store = stuckStore{o.Store} }, []string{
			base + "/messages", base + "/trajectory/detail?id=run.main.13", base + "/trajectory/image?id=run.main.13&message=0&block=0",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, c.change, func(o *Options) { o.Timeout = 50 * time.Millisecond })
			for _, path := range c.paths {
				var p problem
				a := s.get(path)
				a.decode(t, &p)
				if a.StatusCode != http.StatusServiceUnavailable || p.Code != "unavailable" {
					t.Errorf("GET %s: %s: %s", path, a.Status, a.body)
				}
			}
		})
	}
}

// weighed notes how much memory is in use while it is written to: at most, before half is written and from then on.
type weighed struct {
	half, next, written int
	early, late         uint64
}

func (w *weighed) Write(data []byte) (int, error) {
	const every = 4 << 20
	if w.written += len(data); w.written >= w.next {
		w.next += every
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if w.written < w.half {
			w.early = max(w.early, m.HeapAlloc)
		} else {
			w.late = max(w.late, m.HeapAlloc)
		}
	}
	return len(data), nil
}

// TestAnExportNeedsTheSameMemoryThroughout exports a session of a hundred megabytes: what is in use does not grow with what was
// written. The figures of larger ones are those of `make bench`.
func TestAnExportNeedsTheSameMemoryThroughout(t *testing.T) {
	store := memstore.New()
	shape := synthetic.Sized(25000, time.Hour)
	session, err := synthetic.New(t.Context(), store, cas.Scope{Namespace: "team", Session: story.Session}, shape)
	if err != nil {
		t.Fatal(err)
	}
	log := memlog.New()
	if err := session.Log.Copy(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	reader := trajectory.NewReader(log, store)
	builder := trajectory.NewBuilder(session.Scope)
	if err := reader.Refresh(t.Context(), builder); err != nil {
		t.Fatal(err)
	}
	const wanted, room = 90 << 20, 12 << 20
	to := &weighed{half: wanted / 2}
	if _, err := reader.Export(t.Context(), builder.Index(), trajectory.Header{Session: 1}, parallel, to); err != nil {
		t.Fatal(err)
	}
	if to.written < wanted || to.late > to.early+room {
		t.Errorf("%d MiB were written; %d MiB were in use in the first half, and then %d MiB", to.written>>20, to.early>>20, to.late>>20)
	}
}
