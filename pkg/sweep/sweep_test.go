package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/audit"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/sweep"
	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// world is a session whose objects can grow old.
type world struct {
	*story.Story
	t     *testing.T
	store *memstore.Store
	now   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := story.New()
	store, ok := s.Store.(*memstore.Store)
	if !ok {
		t.Fatal("the story has another store")
	}
	w := &world{Story: s, t: t, store: store, now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	store.Now = func() time.Time { return w.now }
	return w
}

func calling(name string) story.Run {
	return story.Run{
		Prompt: "How much is 40 + 2?", Tools: []tool.Definition{story.Tool(name, "calculator")},
		Results: map[string]tool.Result{name: story.Result("42", "calculator")},
		Replies: []story.Reply{story.Calls(name, `{"a":40}`), story.Says("", "It is 42.")},
	}
}

// run executes a run to its end.
func (w *world) run(run story.Run) {
	w.t.Helper()
	if _, err := w.Do(w.t.Context(), run); err != nil {
		w.t.Fatal(err)
	}
}

// orphan stores an object that nothing refers to.
func (w *world) orphan(text string) cas.Digest {
	w.t.Helper()
	ref, err := w.store.Put(w.t.Context(), w.Scope(), cas.MediaBlob, []byte(text))
	if err != nil {
		w.t.Fatal(err)
	}
	return ref.Digest
}

func (w *world) older(d time.Duration) { w.now = w.now.Add(d) }

func (w *world) sweep(change ...func(*sweep.Sweep)) (sweep.Result, error) {
	s := &sweep.Sweep{
		Log: w.Log, Store: w.store, Scope: w.Scope(), Grace: cas.MinGrace, Apply: true,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
	for _, c := range change {
		c(s)
	}
	return s.Run(w.t.Context())
}

// objects counts what is stored.
func (w *world) objects() int {
	w.t.Helper()
	n := 0
	err := w.store.List(w.t.Context(), w.Scope(), func(cas.Ref) error { n++; return nil })
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) has(digest cas.Digest) bool {
	_, err := w.store.Get(w.t.Context(), w.Scope(), cas.Ref{Digest: digest})
	return err == nil
}

// sound wants an audit of everything to find nothing.
func (w *world) sound(log audit.Log) {
	w.t.Helper()
	a := &audit.Audit{Log: log, Store: w.store, Scope: w.Scope(), Report: func(p audit.Problem) error {
		w.t.Errorf("the audit finds %+v", p)
		return nil
	}}
	if _, err := a.Run(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// TestOrphansOfCrashedSteps kills the worker at every point of a run, lets another one finish it, and sweeps.
func TestOrphansOfCrashedSteps(t *testing.T) {
	type point struct {
		name  string
		count int
	}
	var points []point
	all := newWorld(t)
	seen := map[string]int{}
	run := calling("add")
	run.Chaos = func(name string) {
		seen[name]++
		points = append(points, point{name, seen[name]})
	}
	all.run(run)
	if len(points) < 10 {
		t.Fatalf("a run has the points %v", points)
	}
	orphans := 0
	for _, p := range points {
		t.Run(fmt.Sprintf("%s %d", p.name, p.count), func(t *testing.T) {
			w := newWorld(t)
			w.run(calling("add"))
			killed := calling("add")
			reached := 0
			killed.Chaos = func(name string) {
				if name == p.name {
					if reached++; reached == p.count {
						panic(errors.New("killed"))
					}
				}
			}
			func() {
				defer func() { _ = recover() }()
				_, _ = w.Do(t.Context(), killed)
			}()
			last, err := w.Log.Last(t.Context(), story.Stream(runevent.MainAgent))
			if err != nil {
				t.Fatal(err)
			}
			if entry, err := runevent.Decode(last.Raw); err != nil || entry.Event.Type != runevent.TypeRunFinished {
				if _, err := w.sweep(); !errors.Is(err, sweep.ErrBusy) {
					t.Errorf("a live run: %v, want ErrBusy", err)
				}
			}
			if _, err := w.Resume(t.Context(), calling("add")); err != nil {
				t.Logf("the next worker: %v", err)
			}
			w.older(25 * time.Hour)
			before := w.objects()
			result, err := w.sweep()
			if err != nil {
				t.Fatal(err)
			}
			orphans += result.Removed
			if left := w.objects(); left != before-result.Removed || left != result.Referenced || result.Orphans != result.Removed {
				t.Errorf("%d objects, %d are left; %+v", before, left, result)
			}
			w.sound(w.Log)
			w.run(story.Run{Prompt: "And now?", Replies: []story.Reply{story.Says("", "Still 42.")}})
			w.sound(w.Log)
		})
	}
	if orphans == 0 {
		t.Error("no crash leaves an orphan")
	}
}

// TestWhatIsKept wants everything that can be looked at to stay: inputs of failed and cancelled requests as well.
func TestWhatIsKept(t *testing.T) {
	w := newWorld(t)
	w.run(calling("add"))
	w.run(story.Run{Prompt: "Fail.", Replies: []story.Reply{story.Fails(provider.ClassOverloaded, "I am"), story.Fails(provider.ClassAuth, "")}})
	_, err := w.Append(t.Context(), story.Stream(runevent.MainAgent), runevent.Event{
		Type: runevent.TypeRunFailed, Evidence: runevent.Evidence{AgentID: "main", AgentRunID: "r"},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &archive.Archiver{Log: w.Log, Trimmer: w.Log, Store: w.store, Archives: w.store}
	if _, err := a.Session(t.Context(), w.Scope(), true); err != nil {
		t.Fatal(err)
	}
	over, err := archive.Over(w.Log, w.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.older(1000 * time.Hour)
	before := w.objects()
	result, err := w.sweep(func(s *sweep.Sweep) { s.Log = over })
	if err != nil || result.Orphans != 0 || w.objects() != before {
		t.Errorf("%+v, %v; %d of %d objects are left", result, err, w.objects(), before)
	}
	w.sound(over)
	if _, err := w.sweep(); !errors.Is(err, sweep.ErrHistory) || w.objects() != before {
		t.Errorf("without the archives: %v, want ErrHistory", err)
	}
}

func TestWhatIsRefused(t *testing.T) {
	down := errors.New("no answer")
	cases := map[string]struct {
		change func(w *world, s *sweep.Sweep)
		want   error
	}{
		"a short grace":            {func(_ *world, s *sweep.Sweep) { s.Grace = cas.MinGrace - 1 }, cas.ErrInvalid},
		"a session without events": {func(_ *world, s *sweep.Sweep) { s.Scope.Session = "other" }, sweep.ErrHistory},
		"a run that goes on": {func(w *world, _ *sweep.Sweep) {
			_, err := w.Append(w.t.Context(), story.Stream("helper"), runevent.Event{Type: runevent.TypeRunStarted, Evidence: runevent.Evidence{AgentID: "helper", AgentRunID: "r"}})
			if err != nil {
				w.t.Fatal(err)
			}
		}, sweep.ErrBusy},
		"missing events": {func(w *world, _ *sweep.Sweep) {
			if err := w.Log.Trim(w.t.Context(), story.Stream(runevent.MainAgent), 5); err != nil {
				w.t.Fatal(err)
			}
		}, sweep.ErrHistory},
		"a store that fails":       {func(w *world, s *sweep.Sweep) { s.Store = &failing{Store: w.store, at: 4, err: down} }, down},
		"a store that fails later": {func(w *world, s *sweep.Sweep) { s.Store = &failing{Store: w.store, at: 9, err: down} }, down},
		"a missing object": {func(w *world, s *sweep.Sweep) {
			s.Store = &failing{Store: w.store, at: 4, err: fmt.Errorf("%w: x", cas.ErrNotFound)}
		}, cas.ErrNotFound},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run(calling("add"))
			w.orphan("left behind")
			w.older(48 * time.Hour)
			before := w.objects()
			_, err := w.sweep(func(s *sweep.Sweep) { c.change(w, s) })
			if !errors.Is(err, c.want) || w.objects() != before {
				t.Errorf("%v, want %v; %d of %d objects are left", err, c.want, w.objects(), before)
			}
		})
	}
}

// failing is a store of which one read fails.
type failing struct {
	*memstore.Store
	at, calls int
	err       error
}

func (f *failing) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	if f.calls++; f.calls == f.at {
		return nil, f.err
	}
	return f.Store.Get(ctx, scope, ref)
}

func TestDryRunAndGrace(t *testing.T) {
	w := newWorld(t)
	w.run(calling("add"))
	old := w.orphan("old")
	w.older(30 * time.Hour)
	young := w.orphan("young")
	w.older(23 * time.Hour)
	var said []sweep.Orphan
	report := func(s *sweep.Sweep) {
		said = nil
		s.Report = func(o sweep.Orphan) error { said = append(said, o); return nil }
	}
	result, err := w.sweep(report, func(s *sweep.Sweep) { s.Apply = false })
	if err != nil || result.Orphans != 1 || result.Young != 1 || result.Removed != 0 || !w.has(old) {
		t.Errorf("dry run: %+v, %v", result, err)
	}
	want := []sweep.Orphan{{Digest: old, AgeSeconds: 53 * 3600}}
	if diff := cmp.Diff(want, said, cmp.Comparer(func(a, b cas.Digest) bool { return a == b })); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	if result, err = w.sweep(); err != nil || result.Removed != 1 || result.Bytes != 3 || w.has(old) || !w.has(young) {
		t.Errorf("applied: %+v, %v", result, err)
	}
}

// meddling is a store that does something at a moment of the sweep.
type meddling struct {
	*memstore.Store
	listed, looked func()
}

func (m *meddling) ListAged(ctx context.Context, scope cas.Scope, fn func(cas.Digest, time.Duration) error) error {
	err := m.Store.ListAged(ctx, scope, fn)
	if m.listed != nil {
		m.listed()
	}
	return err
}

func (m *meddling) GetAged(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, time.Duration, error) {
	if m.looked != nil {
		m.looked()
	}
	return m.Store.GetAged(ctx, scope, ref)
}

// TestAWriterThatReferencesAnOldObject lets a writer put and name an object that is being swept, at every moment.
func TestAWriterThatReferencesAnOldObject(t *testing.T) {
	const text = "an old object that is wanted again"
	name := func(w *world) {
		_, err := w.Append(w.t.Context(), story.Stream(runevent.MainAgent), runevent.Event{
			Type: runevent.TypeRunFailed, Detail: &cas.Ref{Digest: cas.Of([]byte(text)), MediaType: cas.MediaBlob}, Evidence: runevent.Evidence{AgentID: "main", AgentRunID: "r"},
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	cases := map[string]struct {
		change func(w *world, s *sweep.Sweep)
		want   error
	}{
		"put and named before the events are read": {func(w *world, s *sweep.Sweep) {
			s.Store = &meddling{Store: w.store, listed: func() { w.orphan(text); name(w) }}
		}, nil},
		"put before the removal, named after the sweep": {func(w *world, s *sweep.Sweep) {
			s.Store = &meddling{Store: w.store, looked: func() { w.orphan(text) }}
		}, nil},
		"put before the removal, named during it": {func(w *world, s *sweep.Sweep) {
			s.Store = &meddling{Store: w.store, looked: func() { w.orphan(text); name(w) }}
		}, nil},
		"named after the removal, on the strength of an earlier look": {func(w *world, s *sweep.Sweep) {
			s.Sleep = func(context.Context, time.Duration) error { name(w); return nil }
		}, sweep.ErrBusy},
		"the sweep is stopped while it waits": {func(_ *world, s *sweep.Sweep) {
			s.Sleep = func(context.Context, time.Duration) error { return context.Canceled }
		}, context.Canceled},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.run(calling("add"))
			old := w.orphan(text)
			w.older(48 * time.Hour)
			_, err := w.sweep(func(s *sweep.Sweep) { c.change(w, s) })
			if c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if !w.has(old) {
				t.Error("the object is gone")
			}
			w.sound(w.Log)
		})
	}
}
