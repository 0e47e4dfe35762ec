package natslog

import (
	"errors"
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

// TestReadBeginsInTheMiddle comes back to the middle of a stream that was read: no place is searched.
func TestReadBeginsInTheMiddle(t *testing.T) {
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
	stream := logtest.NewStream()
	all := logtest.Fill(t, log, stream, runevent.Head{}, 2*runevent.Stride+10)
	logtest.ReadAll(t, log, stream, runevent.Head{})
	before := nc.Stats().OutMsgs
	enough := errors.New("enough")
	var got []runevent.Record
	err = log.Read(t.Context(), stream, runevent.Stride, func(record runevent.Record) error {
		if got = append(got, record); len(got) == runevent.Stride {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || len(got) != runevent.Stride || got[0].Head != all[runevent.Stride].Head {
		t.Fatalf("%d entries: %v", len(got), err)
	}
	if requests := nc.Stats().OutMsgs - before; requests > 2 {
		t.Errorf("%d requests, want one for the end and one for the entries", requests)
	}
}
