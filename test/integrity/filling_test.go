package integrity

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/test/services"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// TestAFullStreamLosesNothing fills a bounded stream until it refuses entries, archives, and goes on where it stopped.
func TestAFullStreamLosesNothing(t *testing.T) {
	nc, err := nats.Connect(services.NATSForTest(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	const bound = 1 << 20
	log, err := natslog.New(nc, natslog.Options{MaxBytes: bound})
	if err == nil {
		err = log.Ensure(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	s, store := story.New(), memstore.New()
	writer := runevent.NewWriter(log, runevent.WriterConfig{Stream: story.Stream("helper"), Now: s.Now})
	add := func(event runevent.Event) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		event.Evidence.AgentID, event.Evidence.AgentRunID = "helper", "run-1"
		_, _, err := writer.Append(ctx, event)
		return err
	}
	appended := int64(0)
	for err == nil {
		if err = add(runevent.Event{Type: runevent.TypeBody, Text: strings.Repeat("x", 8000)}); err == nil {
			appended++
		}
	}
	used, limit, fillErr := log.Fill(t.Context())
	if !errors.Is(err, runevent.ErrUnavailable) || fillErr != nil || limit != bound || used < bound*9/10 {
		t.Fatalf("%d of %d bytes after %d entries: %v, %v", used, limit, appended, err, fillErr)
	}
	count := func(log runevent.Log) (n int64) {
		t.Helper()
		if err := log.Read(t.Context(), story.Stream("helper"), 0, func(runevent.Record) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(log); n != appended {
		t.Errorf("the full stream has %d entries, %d were stored", n, appended)
	}

	// The run has not ended and keeps all of its entries; a larger bound makes the room.
	a := &archive.Archiver{Log: log, Trimmer: log, Store: store, Archives: store}
	result, err := a.Session(t.Context(), s.Scope(), true)
	if err != nil || len(result.Files) > 0 || count(log) != appended {
		t.Errorf("a live run: %+v, %v", result, err)
	}
	larger, err := natslog.New(nc, natslog.Options{MaxBytes: 2 * bound})
	if err == nil {
		err = larger.Ensure(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := add(runevent.Event{Type: runevent.TypeRunFinished}); err != nil { // behind the entry that was refused
		t.Fatal(err)
	}
	if n := count(log); n != appended+2 {
		t.Errorf("%d entries with room again, want the %d, the refused one and the end", n, appended)
	}
	if result, err = a.Session(t.Context(), s.Scope(), true); err != nil || result.Entries != appended+2 {
		t.Errorf("the ended run: %+v, %v", result, err)
	}
}
