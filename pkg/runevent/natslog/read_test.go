package natslog

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/logtest"
	"github.com/agentloop/agentloop/test/services"
)

// TestReadGoesOnFromHints reads tails after a good hint, and after hints that a restored backup made wrong.
func TestReadGoesOnFromHints(t *testing.T) {
	nc, err := nats.Connect(services.NATSForTest(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	log, err := New(nc, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := logtest.Fill(t, log, logtest.NewStream(), runevent.Head{}, 3)
	stream := logtest.NewStream()
	all := logtest.Fill(t, log, stream, runevent.Head{}, 20)
	const after = 10
	for name, h := range map[string]hint{
		"where the last read ended":          {sequence: after, position: all[after-1].Head.Position},
		"a little before":                    {sequence: 7, position: all[6].Head.Position},
		"the place of another entry":         {sequence: 7, position: all[12].Head.Position},
		"a place behind what is wanted":      {sequence: after, position: all[15].Head.Position},
		"the place of another stream":        {sequence: 2, position: other[0].Head.Position},
		"the place of the last entry":        {sequence: after, position: all[19].Head.Position},
		"a place that the log does not have": {sequence: after, position: all[19].Head.Position + 100},
	} {
		t.Run(name, func(t *testing.T) {
			log.hints.Add(stream, h)
			got := logtest.ReadAll(t, log, stream, all[after-1].Head)
			if len(got) != len(all)-after || got[0].Head != all[after].Head {
				t.Errorf("%d entries, want %d: %v", len(got), len(all)-after, got)
			}
			if end, _ := log.hints.Get(stream); end != (hint{sequence: 20, position: all[19].Head.Position}) {
				t.Errorf("hint %v afterwards", end)
			}
		})
	}
}
