package providertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

// canned answers every request with one event stream, without a network.
type canned struct{ stream []byte }

func (c *canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(c.stream))}, nil
}

// Fuzz states that no stream breaks the adapter: it ends with an error of the port, or with a message that can be stored
// and read back, that has no empty text, and whose calls have unique ids and arguments that are objects.
func Fuzz(f *testing.F, a Adapter, seeds ...string) {
	f.Add(strings.Join(a.Text("Hel", "lo."), ""))
	f.Add(a.Failure)
	f.Add(Event("", a.Whole))
	for _, seed := range seeds {
		f.Add(seed)
	}
	source := &canned{}
	client := a.Client(f, wire.Config{BaseURL: "http://models.invalid", Transport: source})
	f.Fuzz(func(t *testing.T, stream string) {
		source.stream = []byte(stream)
		resp, err := client.Stream(context.Background(), Request(a.API), func(provider.Delta) {})
		if err != nil {
			var failure *provider.Error
			if !errors.As(err, &failure) || failure.Class == "" || !failure.Dispatched {
				t.Fatalf("error %#v", err)
			}
			if failure.Partial != nil {
				checkMessage(t, *failure.Partial)
			}
			return
		}
		checkMessage(t, resp.Message)
	})
}

func checkMessage(t *testing.T, m message.Message) {
	t.Helper()
	raw := message.Encode(m)
	back, err := message.Decode(raw)
	if err != nil {
		t.Fatalf("message %s: %v", raw, err)
	}
	if !bytes.Equal(message.Encode(back), raw) {
		t.Fatalf("message %s is read back as %s", raw, message.Encode(back))
	}
	seen := map[string]bool{}
	for _, b := range m.Content.Blocks {
		switch {
		case b.Type == message.BlockToolCall && (b.ID == "" || seen[b.ID] || b.Arguments[0] != '{'):
			t.Fatalf("call %q with arguments %s", b.ID, b.Arguments)
		case b.Type == message.BlockText && b.Text == "":
			t.Fatal("an empty text block")
		}
		if b.Type == message.BlockToolCall {
			seen[b.ID] = true
		}
	}
}
