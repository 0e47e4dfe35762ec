package natslog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/logtest"
	"github.com/agentloop/agentloop/test/services"
)

func whole(stream runevent.Stream) runevent.Sweep {
	return runevent.Sweep{Class: stream.Class, Namespace: stream.Namespace, Session: stream.Session, Until: 1 << 40}
}

// TestReadGoesOnAfterASweep reads the end and the middle of a stream that was swept: no place is searched.
func TestReadGoesOnAfterASweep(t *testing.T) {
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
	var swept []runevent.Record
	if err := log.Sweep(t.Context(), whole(stream), func(rec runevent.Record) error {
		swept = append(swept, rec)
		return nil
	}); err != nil || len(swept) != len(all) {
		t.Fatalf("%d records, want %d: %v", len(swept), len(all), err)
	}
	more := logtest.Fill(t, log, stream, all[len(all)-1].Head, 5)
	for name, after := range map[string]runevent.Head{"the end": all[len(all)-1].Head, "the middle": all[runevent.Stride-1].Head} {
		before := nc.Stats().OutMsgs
		got := logtest.ReadAll(t, log, stream, after)
		if len(got) == 0 || got[len(got)-1].Head != more[4].Head {
			t.Errorf("%s: %d records", name, len(got))
		}
		// One for the end of the stream, the others for batches of records.
		if requests := nc.Stats().OutMsgs - before; requests > 3 {
			t.Errorf("%s: %d requests", name, requests)
		}
	}
}

func delivered(n, position, pending int) *nats.Msg {
	msg := found(int64(n), uint64(position), 0, false)
	msg.Subject = msg.Header.Get(headerSubject)
	msg.Header.Del(headerPosition)
	msg.Reply = fmt.Sprintf("$JS.ACK.STANDIN.c.1.%d.%d.1700000000000000000.%d", position, n, pending)
	return msg
}

// TestWhatASweepMeets has a stand-in for a consumer, which sends what a real one sends in bad times only.
func TestWhatASweepMeets(t *testing.T) {
	nc, err := nats.Connect(services.NATSForTest(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	log, err := New(nc, Options{Stream: "STANDIN", APITimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		answers answers
		want    int
		err     string
	}{
		"everything":                     {answers{delivered(1, 5, 1), delivered(2, 9, 0)}, 2, ""},
		"something behind what is asked": {answers{delivered(1, 5, 1), delivered(2, 1000, 8)}, 1, ""},
		"a message lost on its way":      {answers{delivered(1, 5, 3), delivered(3, 12, 2)}, 1, "lost"},
		"a consumer that is gone":        {answers{delivered(1, 5, 3), status("409")}, 1, "409"},
		"a message that says no place":   {answers{found(1, 5, 0, false)}, 0, "reply"},
		"silence":                        {answers{delivered(1, 5, 3)}, 1, "deadline"},
		"no consumer":                    {nil, 0, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.answers != nil {
				sub, err := nc.SubscribeSync("$JS.API.CONSUMER.MSG.NEXT.STANDIN.c") // who says nothing
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = sub.Unsubscribe() }()
			}
			got := 0
			sweep := newSweeping(log, 100, func(runevent.Record) error { got++; return nil })
			for _, msg := range tc.answers { // no server lets a client send such replies
				msg.Sub = &nats.Subscription{}
				sweep.answers <- msg
			}
			err := sweep.run(t.Context(), "c")
			if got != tc.want || (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%d records, error %v; want %d, %q", got, err, tc.want, tc.err)
			}
		})
	}
}

// TestASweepIsNotTriedAgainAtOnce asks a server that has no such stream.
func TestASweepIsNotTriedAgainAtOnce(t *testing.T) {
	nc, err := nats.Connect(services.NATSForTest(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	log, err := New(nc, Options{Stream: "STANDIN"})
	if err != nil {
		t.Fatal(err)
	}
	read := func(runevent.Record) error { return nil }
	if err := log.Sweep(t.Context(), whole(logtest.NewStream()), read); code(err) != jetstream.JSErrCodeStreamNotFound {
		t.Errorf("the first sweep: %v", err)
	}
	before := nc.Stats().OutMsgs
	if err := log.Sweep(t.Context(), whole(logtest.NewStream()), read); !errors.Is(err, errNoSweep) || nc.Stats().OutMsgs != before {
		t.Errorf("the second sweep: %v, after %d requests", err, nc.Stats().OutMsgs-before)
	}
}
