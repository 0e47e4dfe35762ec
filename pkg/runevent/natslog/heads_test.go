package natslog_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/logtest"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/test/services"
)

// A watcher hears of every entry of every agent's stream, once and in order, over kills of the server.
func TestWatchHeadsMissesNothing(t *testing.T) {
	server := services.NATSForTest(t)
	log, _ := connect(t, server.URL)
	stream, other, output := logtest.NewStream(), logtest.NewStream(), logtest.NewStream()
	output.Class = runevent.ClassOut
	head := logtest.Fill(t, log, stream, runevent.Head{}, 3)[2].Head // before the watch: not told

	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan struct{})
	changes := make(chan natslog.Change, 1000)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := log.WatchHeads(ctx, func() { close(began) }, func(c natslog.Change) { changes <- c }); err != nil {
			t.Errorf("watch: %v", err)
		}
	})
	defer wg.Wait()
	defer cancel()
	<-began

	var want []runevent.Record
	var otherHead, outputHead runevent.Head
	for round := range 3 {
		for range 10 {
			rec := logtest.Fill(t, log, stream, head, 1)[0]
			otherRec := logtest.Fill(t, log, other, otherHead, 1)[0]
			outputHead = logtest.Fill(t, log, output, outputHead, 1)[0].Head
			head, otherHead = rec.Head, otherRec.Head
			want = append(want, rec, otherRec)
		}
		if round == 2 {
			break
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	patience := bounded(t)
	for i, rec := range want {
		select {
		case got := <-changes:
			wantChange := natslog.Change{Stream: rec.Stream, Sequence: rec.Head.Sequence, Position: rec.Head.Position,
				Type: runevent.TypeBody, Run: "run-1", Stored: got.Stored}
			if diff := cmp.Diff(wantChange, got); diff != "" || time.Since(got.Stored) > time.Hour {
				t.Fatalf("change %d (-want +got):\n%s", i, diff)
			}
		case <-patience.Done():
			t.Fatalf("%d of %d changes came", i, len(want))
		}
	}
	if extra := len(changes); extra != 0 {
		t.Errorf("%d changes too many", extra)
	}
}

// Who follows the log is told to read anew at the beginning, and when a server came back with another log.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	server, err := services.StartNATS(t.Context(), services.NATSOptions{Programs: services.Folder(t), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	log, _ := connect(t, server.URL)
	old := logtest.NewStream()
	logtest.Fill(t, log, old, runevent.Head{}, 5)

	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan runevent.Stream, 100) // the zero Stream stands for lost
	var wg sync.WaitGroup
	wg.Go(func() {
		err := log.Follow(ctx, func(s runevent.Stream, _ bool) { told <- s }, func() { told <- runevent.Stream{} })
		if err != nil {
			t.Errorf("follow: %v", err)
		}
	})
	defer wg.Wait()
	defer cancel()
	expect := func(what string, want runevent.Stream) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Fatalf("%s: told of %q, want %q", what, got, want)
			}
		case <-bounded(t).Done():
			t.Fatalf("%s: nothing was told", what)
		}
	}
	expect("at the beginning", runevent.Stream{})
	first, second := logtest.NewStream(), logtest.NewStream()
	logtest.Fill(t, log, first, runevent.Head{}, 1)
	expect("after an entry", first)

	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("after the store was lost", runevent.Stream{})
	logtest.Fill(t, log, second, runevent.Head{}, 1)
	expect("after an entry of the new log", second)
}
