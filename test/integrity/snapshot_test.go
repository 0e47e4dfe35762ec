package integrity

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/audit"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/test/services"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// snapshot is a stream as JetStream hands it out for a backup.
type snapshot struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
	chunks [][]byte
}

// take asks a server for a snapshot of the run-event stream, as `nats stream backup` does.
func (w *world) take(nc *nats.Conn) snapshot {
	w.t.Helper()
	inbox := nc.NewInbox()
	chunks, err := nc.SubscribeSync(inbox)
	w.must(err)
	answer, err := nc.Request("$JS.API.STREAM.SNAPSHOT."+natslog.DefaultStream, []byte(`{"deliver_subject":"`+inbox+`","jsck":true}`), 10*time.Second)
	w.must(err)
	var s snapshot
	w.must(json.Unmarshal(answer.Data, &s))
	for {
		chunk, err := chunks.NextMsg(10 * time.Second)
		w.must(err)
		if len(chunk.Data) == 0 {
			return s
		}
		s.chunks = append(s.chunks, chunk.Data)
		if chunk.Reply != "" {
			w.must(nc.Publish(chunk.Reply, nil))
		}
	}
}

// give restores a snapshot into a server, as `nats stream restore` does.
func (w *world) give(nc *nats.Conn, s snapshot) {
	w.t.Helper()
	request, err := json.Marshal(s)
	w.must(err)
	answer, err := nc.Request("$JS.API.STREAM.RESTORE."+natslog.DefaultStream, request, 10*time.Second)
	w.must(err)
	var to struct {
		Subject string          `json:"deliver_subject"`
		Error   json.RawMessage `json:"error"`
	}
	w.must(json.Unmarshal(answer.Data, &to))
	if to.Subject == "" {
		w.t.Fatalf("the server restores nothing: %s", to.Error)
	}
	for _, chunk := range append(s.chunks, nil) {
		ack, err := nc.Request(to.Subject, chunk, 10*time.Second)
		w.must(err)
		var failed struct {
			Error json.RawMessage `json:"error"`
		}
		if len(ack.Data) > 0 && json.Unmarshal(ack.Data, &failed) == nil && failed.Error != nil {
			w.t.Fatalf("the server refuses the snapshot: %s", failed.Error)
		}
	}
}

// TestStreamSnapshot restores a partly archived session's stream into another server. It is whole there, and is appended to.
func TestStreamSnapshot(t *testing.T) {
	w := newWorld(t)
	result := w.archived()
	nc, err := nats.Connect(w.nats.URL)
	w.must(err)
	t.Cleanup(nc.Close)
	taken := w.take(nc)

	fresh := services.NATSForTest(t)
	other, err := nats.Connect(fresh.URL)
	w.must(err)
	t.Cleanup(other.Close)
	w.give(other, taken)
	restored, err := natslog.New(other, natslog.Options{})
	w.must(err)
	w.must(restored.Ensure(t.Context()))
	over, err := archive.Over(restored, w.store, nil)
	w.must(err)
	a := &audit.Audit{Log: over, Store: w.store, Archives: w.store, Scope: w.story.Scope(), Expect: map[string]int64{"main": result.Entries}, Report: func(p audit.Problem) error {
		t.Errorf("the audit finds %+v", p)
		return nil
	}}
	sum, err := a.Run(t.Context())
	if err != nil || sum.Entries != result.Entries {
		t.Fatalf("%d entries, want %d: %v", sum.Entries, result.Entries, err)
	}
	writer, last, err := runevent.OpenWriter(t.Context(), restored, runevent.WriterConfig{Stream: story.Stream(runevent.MainAgent), Now: w.story.Now})
	w.must(err)
	head, _, err := writer.Append(t.Context(), runevent.Event{Type: runevent.TypeRunStarted, Evidence: runevent.Evidence{AgentID: "main", AgentRunID: "next"}})
	if err != nil || head.Sequence != last.Head.Sequence+1 {
		t.Errorf("the next entry is #%d: %v", head.Sequence, err)
	}
}
