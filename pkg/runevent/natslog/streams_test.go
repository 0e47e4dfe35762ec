package natslog

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/logtest"
	"github.com/agentloop/agentloop/test/services"
)

// TestTheEndOfTheLog is that of all streams together, and 0 before there is any entry, or the stream of JetStream itself.
func TestTheEndOfTheLog(t *testing.T) {
	nc, err := nats.Connect(services.NATSForTest(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	log, err := New(nc, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if end, err := log.End(t.Context()); err != nil || end != 0 {
		t.Errorf("an empty log ends at %d: %v", end, err)
	}
	for range 2 {
		all := logtest.Fill(t, log, logtest.NewStream(), runevent.Head{}, 3)
		if end, err := log.End(t.Context()); err != nil || end != all[2].Head.Position {
			t.Errorf("the log ends at %d, want %d: %v", end, all[2].Head.Position, err)
		}
	}
}
