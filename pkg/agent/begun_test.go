package agent

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// answerStore tells when the object of an answer is put, and refuses the first puts of it.
type answerStore struct {
	cas.Store
	begun  func()
	mu     sync.Mutex
	refuse int
	puts   int
}

func (s *answerStore) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	if mediaType == cas.MediaModelAction {
		s.begun()
		s.mu.Lock()
		s.puts++
		refused := s.puts <= s.refuse
		s.mu.Unlock()
		if refused {
			return cas.Ref{}, errors.New("store away")
		}
	}
	return s.Store.Put(ctx, scope, mediaType, data)
}

// incrementLog appends no increment before a store has an answer's object in hand.
type incrementLog struct {
	runevent.Log
	begun <-chan struct{}
	late  func()
}

func (l *incrementLog) Append(ctx context.Context, stream runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	if entry, err := runevent.Decode(raw); err == nil && entry.Event.Type == runevent.TypeBody {
		select {
		case <-l.begun:
		case <-time.After(10 * time.Second):
			l.late()
		}
	}
	return l.Log.Append(ctx, stream, expect, raw)
}

// TestAnswerIsStoredBesideItsIncrements holds that the object of an answer is on its way while the answer's increments are appended, and
// that it is tried again when that came to nothing.
func TestAnswerIsStoredBesideItsIncrements(t *testing.T) {
	for name, refuse := range map[string]int{"the store takes it": 0, "the store refuses it twice": 2} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.model.replies = []reply{says("hello")}
			begun := make(chan struct{})
			store := &answerStore{Store: w.store, refuse: refuse, begun: sync.OnceFunc(func() { close(begun) })}
			w.store = store
			w.log = &incrementLog{Log: w.log, begun: begun, late: func() { t.Error("an increment waited for the object in vain") }}
			if got, err := w.execute(t.Context(), w.run("u1", "hi")); err != nil || got != completed {
				t.Fatalf("%+v, %v; want %+v", got, err, completed)
			}
			if store.puts != refuse+1 {
				t.Errorf("the answer was put %d times, want %d", store.puts, refuse+1)
			}
			w.checkTrace(t,
				[]string{"run.started", "message.user", "context.captured", "body", "model.completed", "state.committed", "run.finished"},
				[]string{"user", "assistant:stop"}, answers(1))
		})
	}
}
