package natslog_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/logtest"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/test/services"
)

// connect returns a log on the server at url, ensured, that ends with the test.
func connect(tb testing.TB, url string) (*natslog.Log, *nats.Conn) {
	tb.Helper()
	logger := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	nc, err := natslog.Connect(natslog.ConnectOptions{URL: url, Name: tb.Name(), Logger: logger})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	log, err := natslog.New(nc, natslog.Options{APITimeout: time.Second, Logger: logger})
	if err != nil {
		tb.Fatal(err)
	}
	if err := log.Ensure(bounded(tb)); err != nil {
		tb.Fatal(err)
	}
	return log, nc
}

func bounded(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

func streamConfig(t *testing.T, nc *nats.Conn) jetstream.StreamConfig {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(bounded(t), natslog.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().Config
}

func TestConformance(t *testing.T) {
	server := services.NATSForTest(t)
	logtest.Run(t, func(t *testing.T) runevent.Log {
		log, _ := connect(t, server.URL)
		return log
	})
}

func TestEnsureMakesTheStreamAndMendsIt(t *testing.T) {
	server := services.NATSForTest(t)
	log, nc := connect(t, server.URL)
	got := streamConfig(t, nc)
	want := got
	want.Subjects = []string{"agentloop.run.>", "agentloop.out.>"}
	want.Storage, want.Discard, want.Retention = jetstream.FileStorage, jetstream.DiscardNew, jetstream.LimitsPolicy
	want.MaxAge, want.MaxMsgs, want.MaxBytes, want.MaxMsgSize = 0, -1, -1, 256<<10
	want.AllowDirect, want.DenyDelete, want.Duplicates, want.Replicas = true, true, 2*time.Minute, 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}

	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	drifted := got
	drifted.MaxAge, drifted.Discard = time.Hour, jetstream.DiscardOld
	drifted.Metadata = map[string]string{"team": "storage"}
	if _, err := js.UpdateStream(bounded(t), drifted); err != nil {
		t.Fatal(err)
	}
	if err := log.Ensure(bounded(t)); err != nil {
		t.Fatal(err)
	}
	mended := streamConfig(t, nc)
	if mended.MaxAge != 0 || mended.Discard != jetstream.DiscardNew {
		t.Errorf("not mended: max age %v, discard %v", mended.MaxAge, mended.Discard)
	}
	if mended.Metadata["team"] != "storage" {
		t.Error("what others configured was lost")
	}
}

func TestEnsureBoundsTheStream(t *testing.T) {
	server := services.NATSForTest(t)
	_, nc := connect(t, server.URL)
	log, err := natslog.New(nc, natslog.Options{MaxBytes: 64 << 10, APITimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Ensure(bounded(t)); err != nil {
		t.Fatal(err)
	}
	// A full stream refuses the newest entry and keeps the oldest; more room makes the same append succeed.
	stream := logtest.NewStream()
	var head runevent.Head
	stored := 0
	for {
		raw := logtest.Entry(head, string(make([]byte, 2<<10)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		next, err := log.Append(ctx, stream, head, raw)
		cancel()
		if err != nil {
			break
		}
		head = next
		stored++
	}
	if got := logtest.ReadAll(t, log, stream, runevent.Head{}); stored < 3 || len(got) != stored {
		t.Fatalf("%d of %d entries are there", len(got), stored)
	}
	roomy, _ := connect(t, server.URL)
	if _, err := roomy.Append(bounded(t), stream, head, logtest.Entry(head, string(make([]byte, 2<<10)))); err != nil {
		t.Errorf("with more room: %v", err)
	}
}

func TestMessagesBearTheirHeaders(t *testing.T) {
	server := services.NATSForTest(t)
	log, nc := connect(t, server.URL)
	stream := logtest.NewStream()
	now := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	writer := runevent.NewWriter(log, runevent.WriterConfig{Stream: stream, Now: func() time.Time { return now }})
	event := runevent.Event{Type: runevent.TypeRecord, Kind: runevent.KindContextCaptured,
		Evidence: runevent.Evidence{AgentID: "main", AgentRunID: "run uid\n1"}}
	head, _, err := writer.Append(bounded(t), event)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	jsStream, err := js.Stream(bounded(t), natslog.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := jsStream.GetMsg(bounded(t), head.Position)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		natslog.HeaderSequence: "1", natslog.HeaderType: "agent.record", natslog.HeaderKind: "context.captured",
		natslog.HeaderRun: "run_uid_1", "Nats-Msg-Id": "run_uid_1:main:1:" + head.Digest.Hex()[:8],
		"Nats-Expected-Stream": natslog.DefaultStream, "Nats-Expected-Last-Subject-Sequence": "0",
	}
	got := map[string]string{}
	for key := range want {
		got[key] = msg.Header.Get(key)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if want := "agentloop.run." + stream.Namespace + "." + stream.Session + ".main"; msg.Subject != want {
		t.Errorf("subject %s, want %s", msg.Subject, want)
	}
}
