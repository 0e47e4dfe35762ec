package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/logtest"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/test/services"
)

func event(text string) runevent.Event {
	return runevent.Event{Type: runevent.TypeBody, Text: text, Evidence: runevent.Evidence{AgentID: "main", AgentRunID: "run-1"}}
}

// texts reads a stream as a verified chain.
func texts(t *testing.T, log runevent.Log, stream runevent.Stream) []string {
	t.Helper()
	var out []string
	for _, rec := range logtest.ReadAll(t, log, stream, runevent.Head{}) {
		e, err := runevent.Decode(rec.Raw)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Event.Text)
	}
	return out
}

// The server is killed again and again under appends. Every append is told to be stored in the end; the streams hold
// each entry once, in order, linked.
func TestKilledServerLosesAndDoublesNothing(t *testing.T) {
	const streams, kills, between = 6, 4, 150
	server := services.NATSForTest(t)
	log, _ := connect(t, server.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	stop := make(chan struct{})
	var appended atomic.Int64
	var wg sync.WaitGroup
	names, want := make([]runevent.Stream, streams), make([][]string, streams)
	for i := range streams {
		names[i] = logtest.NewStream()
		w := runevent.NewWriter(log, runevent.WriterConfig{Stream: names[i], Now: time.Now})
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprintf("entry %d", n)
				if _, _, err := w.Append(ctx, event(text)); err != nil {
					t.Errorf("%s: %v", names[i], err)
					return
				}
				want[i] = append(want[i], text)
				appended.Add(1)
			}
		})
	}
	for kill := range kills {
		waitFor(t, func() bool { return appended.Load() >= int64((kill+1)*between) })
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, func() bool { return appended.Load() >= (kills+1)*between })
	close(stop)
	wg.Wait()
	for i := range streams {
		if diff := cmp.Diff(want[i], texts(t, log, names[i])); diff != "" {
			t.Errorf("%s (-appended +stored):\n%s", names[i], diff)
		}
	}
	t.Logf("%d entries over %d kills", appended.Load(), kills)
}

// waitFor asks until it is so; a minute is more than any of it takes.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	ctx := bounded(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-ctx.Done():
			t.Fatal("it did not come to that")
		case <-tick.C:
		}
	}
}

// The acknowledgement is lost and the connection with it: the entry is stored, and its writer must find that out.
func TestLostAcknowledgementIsSettled(t *testing.T) {
	server := services.NATSForTest(t)
	direct, _ := connect(t, server.URL)
	proxy := newLossy(t, server.URL)
	log, _ := connect(t, proxy.url)
	stream := logtest.NewStream()
	w := runevent.NewWriter(log, runevent.WriterConfig{Stream: stream, Now: time.Now})
	var want []string
	for n := range 12 {
		text := fmt.Sprintf("entry %d", n)
		if n%3 == 1 {
			proxy.loseNext(`"seq":`)
		}
		if _, _, err := w.Append(bounded(t), event(text)); err != nil {
			t.Fatal(err)
		}
		want = append(want, text)
	}
	if proxy.lost() != 4 {
		t.Fatalf("%d acknowledgements were lost, want 4", proxy.lost())
	}
	if diff := cmp.Diff(want, texts(t, direct, stream)); diff != "" {
		t.Errorf("(-appended +stored):\n%s", diff)
	}
}

// The publish itself is lost: nothing is stored until it is sent again.
func TestLostPublishIsSentAgain(t *testing.T) {
	server := services.NATSForTest(t)
	direct, _ := connect(t, server.URL)
	proxy := newLossy(t, server.URL)
	log, _ := connect(t, proxy.url)
	stream := logtest.NewStream()
	w := runevent.NewWriter(log, runevent.WriterConfig{Stream: stream, Now: time.Now})
	for n := range 4 {
		proxy.loseNext("HPUB agentloop.run.")
		if _, _, err := w.Append(bounded(t), event(fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"0", "1", "2", "3"}, texts(t, direct, stream)); diff != "" || proxy.lost() != 4 {
		t.Errorf("lost %d (-appended +stored):\n%s", proxy.lost(), diff)
	}
}

// A batch that breaks in the middle is read on from where it broke.
func TestReadGoesOnAfterABrokenBatch(t *testing.T) {
	server := services.NATSForTest(t)
	direct, _ := connect(t, server.URL)
	stream := logtest.NewStream()
	want := logtest.Fill(t, direct, stream, runevent.Head{}, 700)
	proxy := newLossy(t, server.URL)
	log, _ := connect(t, proxy.url)
	proxy.loseNext("entry 400 of")
	got := logtest.ReadAll(t, log, stream, runevent.Head{})
	if len(got) != len(want) || proxy.lost() != 1 {
		t.Errorf("%d entries, want %d; connections broken: %d", len(got), len(want), proxy.lost())
	}
}

func TestUnavailableUntilTheContextEnds(t *testing.T) {
	server := services.NATSForTest(t)
	log, _ := connect(t, server.URL)
	stream := logtest.NewStream()
	w := runevent.NewWriter(log, runevent.WriterConfig{Stream: stream, Now: time.Now})
	if _, _, err := w.Append(bounded(t), event("before")); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, appendErr := w.Append(short, event("during"))
	_, lastErr := log.Last(short, stream)
	for call, err := range map[string]error{"append": appendErr, "last": lastErr} {
		if !errors.Is(err, runevent.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want ErrUnavailable", call, err)
		}
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Append(bounded(t), event("after")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"before", "during", "after"}, texts(t, log, stream)); diff != "" {
		t.Error(diff)
	}
}

// A server that comes back with an empty store gets its stream again, and no writer goes on over what was lost.
func TestWipedServer(t *testing.T) {
	dir := t.TempDir()
	server, err := services.StartNATS(t.Context(), services.NATSOptions{Programs: services.Folder(t), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	log, nc := connect(t, server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := log.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer cancel()
	stream := logtest.NewStream()
	w := runevent.NewWriter(log, runevent.WriterConfig{Stream: stream, Now: time.Now})
	if _, _, err := w.Append(bounded(t), event("a")); err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{})
	watched := make(chan error, 1)
	wg.Go(func() { watched <- log.WatchHeads(ctx, func() { close(began) }, func(natslog.Change) {}) })
	<-began

	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Append(bounded(t), event("b")); !errors.Is(err, runevent.ErrTruncated) {
		t.Errorf("append: %v, want ErrTruncated", err)
	}
	if got := streamConfig(t, nc); !got.DenyDelete || got.Discard != 1 {
		t.Errorf("the stream was not made again as it was: %+v", got)
	}
	select {
	case err := <-watched:
		if !errors.Is(err, runevent.ErrTruncated) {
			t.Errorf("watch: %v, want ErrTruncated", err)
		}
	case <-bounded(t).Done():
		t.Error("the watch did not notice")
	}
}

// A server that comes back with an older state of its store, as after a restored backup, is noticed by who follows the log and
// by who writes to it, although the stream is the same and grows again.
func TestServerThatIsPutBack(t *testing.T) {
	dir := t.TempDir()
	server, err := services.StartNATS(t.Context(), services.NATSOptions{Programs: services.Folder(t), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	// A gate, so that nobody connects before the server is ready: what is noticed is the store, not the restart.
	gate, err := services.OpenGate(strings.TrimPrefix(server.URL, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Shut() })
	log, _ := connect(t, "nats://"+gate.Address())
	stream, other := logtest.NewStream(), logtest.NewStream()
	w := runevent.NewWriter(log, runevent.WriterConfig{Stream: stream, Now: time.Now})
	if _, _, err := w.Append(bounded(t), event("kept")); err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "saved")
	restart := func(store func() error) {
		if err := errors.Join(gate.Shut(), server.Stop(), store(), server.Start(t.Context()), gate.Open()); err != nil {
			t.Fatal(err)
		}
	}
	restart(func() error { return os.CopyFS(saved, os.DirFS(server.Store())) })
	for range 20 {
		if _, _, err := w.Append(bounded(t), event("lost")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	began, heard, watched := make(chan struct{}), make(chan natslog.Change, 100), make(chan error, 1)
	wg.Go(func() { watched <- log.WatchHeads(ctx, func() { close(began) }, func(c natslog.Change) { heard <- c }) })
	<-began
	if _, _, err := w.Append(bounded(t), event("heard of, and lost")); err != nil {
		t.Fatal(err)
	}
	<-heard
	restart(func() error {
		return errors.Join(os.RemoveAll(server.Store()), os.CopyFS(server.Store(), os.DirFS(saved)))
	})
	logtest.Fill(t, log, other, runevent.Head{}, 3)
	if _, _, err := w.Append(bounded(t), event("after")); !errors.Is(err, runevent.ErrTruncated) {
		t.Errorf("append: %v, want ErrTruncated", err)
	}
	select {
	case err := <-watched:
		if !errors.Is(err, runevent.ErrTruncated) {
			t.Errorf("watch: %v, want ErrTruncated", err)
		}
	case <-bounded(t).Done():
		t.Error("the watch did not notice")
	}
	if diff := cmp.Diff([]string{"kept"}, texts(t, log, stream)); diff != "" {
		t.Errorf("stored over what was lost:\n%s", diff)
	}
}
