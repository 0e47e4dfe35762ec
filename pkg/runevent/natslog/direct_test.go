package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/logtest"
	"github.com/agentloop/agentloop/test/services"
)

// answers are what a stand-in for a JetStream stream sends to a direct get; a real server keeps them from each other
// only by its version, by load or by damage.
type answers []*nats.Msg

func found(n int64, position, before uint64, batched bool) *nats.Msg {
	stream := runevent.Stream{Class: runevent.ClassRun, Namespace: "team-a", Session: "s", Key: "main"}
	msg := &nats.Msg{Data: fmt.Appendf(nil, `{"sequence":%d}`, n), Header: nats.Header{}}
	msg.Header.Set(HeaderSequence, fmt.Sprint(n))
	msg.Header.Set(headerSubject, subjectOf(stream))
	msg.Header.Set(headerPosition, fmt.Sprint(position))
	if batched {
		msg.Header.Set(headerPending, "9")
		msg.Header.Set(headerLastPosition, fmt.Sprint(before))
	}
	return msg
}

func status(code string) *nats.Msg {
	return &nats.Msg{Header: nats.Header{headerStatus: {code}, headerDescription: {"as it is"}}}
}

func TestDirectGetAnswers(t *testing.T) {
	cases := map[string]struct {
		answers answers
		want    int
		there   error // nil, errNotThere, or any other error
	}{
		"a whole batch":                           {answers{found(1, 5, 0, true), found(2, 9, 5, true), status("204")}, 2, nil},
		"a message of the batch was lost":         {answers{found(1, 5, 0, true), found(3, 12, 9, true), status("204")}, 1, errAny},
		"a server without batches":                {answers{found(1, 5, 0, false)}, 1, nil},
		"no message":                              {answers{status("404")}, 0, errNotThere},
		"a request that the server does not know": {answers{status("408")}, 0, errAny},
		"a batch without its end":                 {answers{found(1, 5, 0, true)}, 1, errAny},
		"a message of another subject tree":       {answers{{Header: nats.Header{headerSubject: {"orders.1"}, headerPosition: {"5"}}, Data: []byte("x")}}, 0, errAny},
		"a message without a position":            {answers{{Header: nats.Header{headerSubject: {"agentloop.run.a.b.main"}}, Data: []byte("x")}}, 0, errAny},
		"nobody serves direct gets":               {nil, 0, errNotThere},
	}
	server := services.NATSForTest(t)
	nc, err := nats.Connect(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			log, err := New(nc, Options{Stream: "STANDIN", APITimeout: 300 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			if tc.answers != nil {
				sub, err := nc.Subscribe("$JS.API.DIRECT.GET.STANDIN", func(request *nats.Msg) {
					var got getRequest
					if err := json.Unmarshal(request.Data, &got); err != nil || got.Batch != 256 {
						t.Errorf("request %s: %v", request.Data, err)
					}
					for _, answer := range tc.answers {
						answer.Subject = request.Reply
						if err := nc.PublishMsg(answer); err != nil {
							t.Error(err)
						}
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = sub.Unsubscribe() }()
			}
			got, err := log.directGet(t.Context(), getRequest{Sequence: 1, NextFor: "x", Batch: batchMessages})
			if len(got) != tc.want {
				t.Errorf("%d records, want %d", len(got), tc.want)
			}
			switch {
			case tc.there == nil && err != nil, tc.there != nil && err == nil,
				(tc.there == errNotThere) != errors.Is(err, errNotThere): //nolint:errorlint // a marker of this table
				t.Errorf("error %v, want %v", err, tc.there)
			}
		})
	}
}

var errAny = errors.New("any error")

// Where direct gets do not answer, the leader does: a read is slower and complete.
func TestReadWithoutDirectGets(t *testing.T) {
	server := services.NATSForTest(t)
	nc, err := nats.Connect(server.URL)
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
	stream, err := log.js.Stream(t.Context(), DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.AllowDirect = false
	if _, err := log.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	name := logtest.NewStream()
	want := logtest.Fill(t, log, name, runevent.Head{}, 30)
	got := logtest.ReadAll(t, log, name, runevent.Head{})
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
	listed, err := log.Streams(ctx, name.Namespace, name.Session)
	if err != nil || len(listed) != 1 || listed[0].Head != want[29].Head {
		t.Errorf("streams %v, %v", listed, err)
	}
}
