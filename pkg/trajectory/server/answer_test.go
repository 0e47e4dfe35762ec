package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// TestNotModifiedReadsNothing asks again for what has not changed: nothing is read of the store for the answer.
func TestNotModifiedReadsNothing(t *testing.T) {
	var store *castest.Counting
	s := newSite(t, func(o *Options) {
		store = castest.NewCounting(o.Store)
		o.Store = store
	})
	s.get(base + "/trajectory") // reads the index, and what it needs of the store once
	for _, path := range []string{
		base, base + "/trajectory", base + "/trajectory?limit=5", base + "/messages", base + "/trajectory/detail?id=run.main.13", base + "/trajectory/detail?id=run.main.4",
	} {
		before := store.Counts()
		first := s.get(path)
		read := store.Counts().Gets - before.Gets
		if strings.Contains(path, "detail") && read == 0 {
			t.Errorf("GET %s: no object was read for the first answer: the test shows nothing", path)
		}
		before = store.Counts()
		again := s.get(path, "If-None-Match", first.Header.Get("ETag"))
		if again.StatusCode != http.StatusNotModified || len(again.body) > 0 || again.Header.Get("ETag") != first.Header.Get("ETag") {
			t.Errorf("GET %s again: %s, ETag %q and %q", path, again.Status, first.Header.Get("ETag"), again.Header.Get("ETag"))
		}
		if after := store.Counts(); after != before {
			t.Errorf("GET %s again read %d objects", path, after.Gets-before.Gets)
		}
		if other := s.get(path, "If-None-Match", `W/"000000000000000000000000"`); other.StatusCode != http.StatusOK {
			t.Errorf("GET %s with another tag: %s", path, other.Status)
		}
	}
}

// TestTags holds that answers that differ have different tags.
func TestTags(t *testing.T) {
	s := newSite(t)
	tags := map[string]string{}
	for _, path := range []string{
		base, base + "/messages", base + "/messages?limit=1", base + "/trajectory", base + "/trajectory?limit=1", base + "/trajectory/detail?id=run.main.13",
		base + "/trajectory/detail?id=run.main.4", "/api/sessions/team:fresh", "/api/sessions/team:fresh/trajectory",
	} {
		tag := s.get(path).Header.Get("ETag")
		if tag == "" || tags[tag] != "" {
			t.Errorf("GET %s has the tag %s of %q", path, tag, tags[tag])
		}
		tags[tag] = path
	}
	before := s.get(base).Header.Get("ETag")
	s.directory.sessions[0].Summary.Title = "Another title"
	if s.get(base).Header.Get("ETag") == before {
		t.Error("another title has the same tag")
	}
	if a := s.get(base+"/trajectory/detail?id=run.main.999", "If-None-Match", "*"); a.StatusCode != http.StatusNotFound {
		t.Errorf("an entry that is not there: %s", a.Status)
	}
}

// absent is a store without one object, as long as gone says so.
type absent struct {
	cas.Store
	digest cas.Digest
	gone   bool
}

func (a *absent) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	if a.gone && ref.Digest == a.digest {
		return nil, cas.ErrNotFound
	}
	return a.Store.Get(ctx, scope, ref)
}

// TestWhatIsMissingIsAskedForAnew restores an object that an answer said to be missing.
func TestWhatIsMissingIsAskedForAnew(t *testing.T) {
	store := &absent{gone: true}
	s := newSite(t, func(o *Options) { store.Store, o.Store = o.Store, store })
	told, err := story.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	store.digest = contextOf(t, told)
	const path = base + "/trajectory/detail?id=run.main.13"
	first := s.get(path)
	if first.StatusCode != http.StatusOK || first.Header.Get("ETag") != "" || !strings.Contains(string(first.body), "objectMissing") {
		t.Fatalf("without the object: %s, ETag %q: %s", first.Status, first.Header.Get("ETag"), first.body)
	}
	store.gone = false
	if again := s.get(path); again.Header.Get("ETag") == "" || strings.Contains(string(again.body), "objectMissing") {
		t.Errorf("with it: ETag %q: %s", again.Header.Get("ETag"), again.body)
	}
}

// contextOf is the digest of the input of the sample's second request.
func contextOf(t *testing.T, told *story.Story) cas.Digest {
	t.Helper()
	var found cas.Digest
	err := told.Log.Read(t.Context(), story.Stream(runevent.MainAgent), 12, func(r runevent.Record) error {
		if entry, err := runevent.Decode(r.Raw); err == nil && r.Head.Sequence == 13 && entry.Event.Evidence.ContextRef != nil {
			found = entry.Event.Evidence.ContextRef.Digest
		}
		return nil
	})
	if err != nil || found.IsZero() {
		t.Fatalf("record 13 names no input: %v", err)
	}
	return found
}

// ended are run resources.
type ended struct {
	runs  []trajectory.Run
	asked int
}

func (e *ended) EndedRuns(context.Context, string, string) ([]trajectory.Run, error) {
	e.asked++
	return e.runs, nil
}

// TestRunsThatNeverStarted lists runs that left no run event, when the session counts more than the log has.
func TestRunsThatNeverStarted(t *testing.T) {
	resources := &ended{}
	s := newSite(t, func(o *Options) { o.Runs = resources })
	list := func(path string) (answer, []trajectory.Run) {
		var page struct {
			Runs []trajectory.Run `json:"runs"`
		}
		a := s.get(path)
		a.decode(t, &page)
		return a, page.Runs
	}
	before, runs := list(base + "/trajectory")
	if len(runs) != 2 || resources.asked != 0 {
		t.Errorf("%d runs, resources asked for %d times: the log has them all", len(runs), resources.asked)
	}
	s.directory.sessions[0].Summary.Runs = 4
	resources.runs = []trajectory.Run{
		{UID: "q", Name: "queued", Agent: "main", Status: "cancelled", Reason: "Cancelled", Message: "cancelled on request", EndedAt: 2},
		{UID: runs[0].UID, Agent: "main", Status: "failed"},
		{UID: "r", Name: "refused", Agent: "main", Status: "failed", Reason: "SkillNotFound", Message: "there is no skill x", EndedAt: 1},
	}
	after, runs := list(base + "/trajectory")
	if len(runs) != 4 || runs[2].Name != "refused" || runs[3].Reason != "Cancelled" || runs[0].Status != "succeeded" || after.Header.Get("ETag") == before.Header.Get("ETag") {
		t.Errorf("runs are %+v", runs)
	}
	if _, runs := list("/api/sessions/team:fresh/trajectory"); len(runs) != 0 {
		t.Errorf("a session without runs has %+v", runs)
	}
	s.directory.sessions[1].Summary.Runs = 1
	if _, runs := list("/api/sessions/team:fresh/trajectory"); len(runs) != 3 {
		t.Errorf("a session that ended before its first request has %+v", runs)
	}
}
