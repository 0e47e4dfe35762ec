package natslog_test

import (
	"fmt"
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

// A server under load may acknowledge without saying where the entry is, as for a duplicate of what is still on its way. The place is
// looked up, and the next entry is appended behind it.
func TestAcknowledgementWithoutAPlace(t *testing.T) {
	server := services.NATSForTest(t)
	direct, _ := connect(t, server.URL)
	proxy := newLossy(t, server.URL)
	log, _ := connect(t, proxy.url)
	stream := logtest.NewStream()
	w := runevent.NewWriter(log, runevent.WriterConfig{Stream: stream, Now: time.Now})
	var want []string
	for n := 1; n <= 6; n++ {
		proxy.replaceNext(fmt.Sprintf(`"seq":%d`, n), `"seq":0`)
		text := fmt.Sprintf("entry %d", n)
		head, _, err := w.Append(bounded(t), event(text))
		if err != nil || head.Position != uint64(n) {
			t.Fatalf("entry %d: head %+v, %v", n, head, err)
		}
		want = append(want, text)
	}
	if diff := cmp.Diff(want, texts(t, direct, stream)); diff != "" || proxy.lost() != 6 {
		t.Errorf("%d acknowledgements were changed (-appended +stored):\n%s", proxy.lost(), diff)
	}
}

// While the stream is missing, somebody who listens to its subjects makes the server take publishes without an error and without an
// answer. The stream is made again all the same, and the entry stored.
func TestListenerInsteadOfTheStream(t *testing.T) {
	server := services.NATSForTest(t)
	log, nc := connect(t, server.URL)
	listener, err := nc.Subscribe("agentloop.run.>", func(*nats.Msg) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Unsubscribe() })
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(bounded(t), natslog.DefaultStream); err != nil {
		t.Fatal(err)
	}
	stream := logtest.NewStream()
	w := runevent.NewWriter(log, runevent.WriterConfig{Stream: stream, Now: time.Now})
	if _, _, err := w.Append(bounded(t), event("stored")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"stored"}, texts(t, log, stream)); diff != "" {
		t.Error(diff)
	}
}
