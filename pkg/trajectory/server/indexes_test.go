package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/legacy"
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

// TestImportedFilesAreSeen imports the read model's fixtures into a session that is being read.
func TestImportedFilesAreSeen(t *testing.T) {
	var later time.Duration
	s := newSite(t, func(o *Options) { o.Now = func() time.Time { return time.Now().Add(later) } })
	var index struct {
		Agents  []trajectory.Agent `json:"agents"`
		Entries []trajectory.Entry `json:"entries"`
		Untimed []trajectory.Entry `json:"untimed"`
		Cursor  string             `json:"cursor"`
	}
	s.get(base+"/trajectory").decode(t, &index)
	cursor := index.Cursor
	importFixtures(t, s.story)
	later = importsEvery / 2
	if a := s.get(base + "/trajectory?after=" + cursor); a.StatusCode != http.StatusOK {
		t.Errorf("before it is looked for: %s", a.Status)
	}
	later = importsEvery + time.Second
	if a := s.get(base + "/trajectory?after=" + cursor); a.StatusCode != http.StatusGone {
		t.Errorf("a cursor from before the import: %s", a.Status)
	}
	s.get(base+"/trajectory").decode(t, &index)
	if len(index.Entries) != 23+10 || len(index.Untimed) != 4 || len(index.Agents) != 2 {
		t.Errorf("%d entries, %d untimed, agents %+v", len(index.Entries), len(index.Untimed), index.Agents)
	}
	imported := 0
	for _, e := range append(index.Entries, index.Untimed...) {
		if e.ImportedFrom == "" {
			continue
		}
		imported++
		for _, raw := range []string{"", "&raw=true"} {
			if a := s.get(base + "/trajectory/detail?id=" + e.ID + raw); a.StatusCode != http.StatusOK {
				t.Errorf("detail of %s: %s: %s", e.ID, a.Status, a.body)
			}
		}
	}
	a := s.get(base + "/trajectory/export")
	if imported != 14 || bytes.Count(a.body, []byte(`"importedFrom":`)) != 2*14+4 || bytes.Contains(a.body, []byte("hunter2")) {
		t.Errorf("%d imported entries; the export names %d", imported, bytes.Count(a.body, []byte(`"importedFrom":`)))
	}
	if a := s.get(base + "/messages?agent=researcher-0a1b2c3d"); a.StatusCode != http.StatusOK {
		t.Errorf("the conversation of an agent that has only imported files: %s", a.Status)
	}
}

// importFixtures stores the read model's fixtures as an import does.
func importFixtures(t *testing.T, told *story.Story) {
	t.Helper()
	root := os.DirFS(filepath.Join("..", "testdata", "legacy"))
	var manifest legacy.Manifest
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		body, err := told.Store.Put(t.Context(), told.Scope().In(cas.TreeFiles), cas.MediaBlob, raw)
		manifest.Files = append(manifest.Files, legacy.File{Path: name, Kind: legacy.KindOf(name), Size: body.Size, SHA256: body.Digest, Body: body})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := manifest.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := told.Store.Put(t.Context(), told.Scope().In(cas.TreeManifests), cas.MediaImport, raw); err != nil {
		t.Fatal(err)
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
	x := newIndexes(trajectory.NewReader(s.Log, s.Store), 100<<10, newMetrics(nil), time.Now)
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
