package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// shortLog forgets the end of every stream when it is told to.
type shortLog struct {
	trajectory.Log
	keep int64
}

func (l *shortLog) Streams(ctx context.Context, namespace, session string) ([]runevent.Record, error) {
	ends, err := l.Log.Streams(ctx, namespace, session)
	if err != nil || l.keep == 0 {
		return ends, err
	}
	for i, end := range ends {
		err = l.Read(ctx, end.Stream, 0, func(r runevent.Record) error {
			ends[i] = r
			return nil
		})
	}
	return ends, err
}

func (l *shortLog) Read(ctx context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error {
	return l.Log.Read(ctx, stream, after, func(r runevent.Record) error {
		if l.keep > 0 && r.Head.Sequence > l.keep {
			return nil
		}
		return fn(r)
	})
}

func TestARestoredLogIsReadAnew(t *testing.T) {
	log := &shortLog{}
	s := newSite(t, func(o *Options) { log.Log = o.Log; o.Log = log })
	var index struct {
		Entries []trajectory.Entry  `json:"entries"`
		Notices []trajectory.Notice `json:"notices"`
		Cursor  string              `json:"cursor"`
	}
	s.get(base+"/trajectory").decode(t, &index)
	cursor := index.Cursor
	log.keep = 10
	s.get(base+"/trajectory").decode(t, &index)
	if len(index.Entries) != 6 || len(index.Notices) != 1 || index.Notices[0].Code != trajectory.CodeTruncated || index.Notices[0].To != 28 {
		t.Errorf("%d entries, notices %+v", len(index.Entries), index.Notices)
	}
	if a := s.get(base + "/trajectory?after=" + cursor); a.StatusCode != http.StatusGone {
		t.Errorf("the old cursor: %s", a.Status)
	}
}

func TestTheLogIsHeldToTheStatus(t *testing.T) {
	s := newSite(t)
	s.directory.sessions[0].LastSequence = 30
	if a := s.get(base); !strings.Contains(string(a.body), `"truncatedStream"`) {
		t.Errorf("a status that knows more than the log: %s", a.body)
	}
}

// TestIndexesAreBounded reads many sessions: only some stay in memory.
func TestIndexesAreBounded(t *testing.T) {
	s, err := story.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := newIndexes(trajectory.NewReader(s.Log, s.Store), 100<<10, newMetrics(nil))
	for i := range 100 {
		if _, err := x.get(t.Context(), want{scope: cas.Scope{Namespace: story.Namespace, Session: fmt.Sprintf("s%d", i)}}); err != nil {
			t.Fatal(err)
		}
		if _, err := x.get(t.Context(), want{scope: s.Scope()}); err != nil {
			t.Fatal(err)
		}
	}
	var sum int64
	for element := x.order.Front(); element != nil; element = element.Next() {
		sum += element.Value.(*indexed).bytes
	}
	if x.bytes > x.limit || x.bytes != sum || len(x.entries) != x.order.Len() || len(x.entries) < 2 {
		t.Errorf("%d indexes with %d bytes (counted %d), at most %d", len(x.entries), sum, x.bytes, x.limit)
	}
	if _, ok := x.entries[s.Scope()]; !ok {
		t.Error("the session that is read all the time was dropped")
	}
}

func TestWaitingForAnIndexEndsWithTheRequest(t *testing.T) {
	s := newSite(t)
	one := s.server.indexes.entry(s.story.Scope())
	<-one.turn
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.server.indexes.get(ctx, want{scope: s.story.Scope()}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's error", err)
	}
	one.turn <- struct{}{}
}

// TestManyReadersOfALiveSession appends while others read, page and export.
func TestManyReadersOfALiveSession(t *testing.T) {
	s := newSite(t)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 10 {
				ix, err := s.server.indexes.get(t.Context(), want{scope: s.story.Scope()})
				if err != nil {
					t.Error(err)
					return
				}
				all, _ := ix.All()
				page, err := ix.Page("", 10000)
				if err != nil || len(page.Entries) != len(all) || ix.Counts.Entries != len(all) {
					t.Errorf("%d entries in a page of %d: %v", len(page.Entries), len(all), err)
				}
				if _, err := s.server.reader.Detail(t.Context(), ix, "run.main.13", 0); err != nil {
					t.Error(err)
				}
				if _, err := s.server.reader.History(t.Context(), ix, "main", -1, 10); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 30 {
		event := runevent.Event{
			Type: runevent.TypeReasoning, Text: "x", Evidence: runevent.Evidence{AgentID: "main", AgentRunID: "u9", RequestExecutionID: fmt.Sprint(i / 10)},
		}
		if _, err := s.story.Append(t.Context(), story.Stream("main"), event); err != nil {
			t.Error(err)
		}
	}
	readers.Wait()
}
