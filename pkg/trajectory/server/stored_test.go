package server

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// watchedStore remembers what was read, and what it was at first.
type watchedStore struct {
	cas.Store
	t    *testing.T
	mu   sync.Mutex
	read map[cas.Ref][]byte
}

func (w *watchedStore) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	raw, err := w.Store.Get(ctx, scope, ref)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if _, known := w.read[ref]; !known {
			w.read[ref] = bytes.Clone(raw)
		}
	}
	return raw, err
}

func (w *watchedStore) Put(context.Context, cas.Scope, string, []byte) (cas.Ref, error) {
	w.t.Error("something was written")
	return cas.Ref{}, errAway
}

// records are all bytes of the session's main stream.
func records(t *testing.T, s *story.Story) []byte {
	t.Helper()
	var all []byte
	err := s.Log.Read(t.Context(), story.Stream("main"), 0, func(record runevent.Record) error {
		all = append(all, record.Raw...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestWhatIsStoredStaysAsItIs reads everything in every form and then the log and the store once more: what was redacted on its
// way out is still there.
func TestWhatIsStoredStaysAsItIs(t *testing.T) {
	store := &watchedStore{t: t, read: map[cas.Ref][]byte{}}
	s := newSite(t, func(o *Options) { store.Store = o.Store; o.Store = store })
	before := records(t, s.story)
	paths := []string{base, base + "/messages", base + "/trajectory", base + "/trajectory/export", base + "/trajectory/export?format=atif", base + "/trajectory/export?format=otlp-json&content=true"}
	for _, id := range []string{"run.main.4", "run.main.6", "run.main.13", "run.main.21"} {
		paths = append(paths, base+"/trajectory/detail?id="+id, base+"/trajectory/detail?id="+id+"&raw=true")
	}
	for _, path := range paths {
		if a := s.get(path); a.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %s", path, a.Status)
		}
	}
	if !bytes.Equal(before, records(t, s.story)) || !bytes.Contains(before, []byte("hunter2")) {
		t.Error("the log is not what it was")
	}
	if len(store.read) < 8 {
		t.Fatalf("only %d objects were read", len(store.read))
	}
	planted := 0
	for ref, first := range store.read {
		raw, err := store.Store.Get(t.Context(), s.story.Scope(), ref)
		if err != nil || !bytes.Equal(raw, first) || cas.Of(raw) != ref.Digest {
			t.Errorf("object %s is not what it was: %v", ref.Digest, err)
		}
		if bytes.Contains(raw, []byte("hunter2")) {
			planted++
		}
	}
	if planted == 0 {
		t.Error("no object has the credential that is redacted on the way out")
	}
}
