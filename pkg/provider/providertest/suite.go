package providertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

// Adapter is what the suite needs to know about an adapter and its protocol.
type Adapter struct {
	API provider.API
	// New returns the adapter under test.
	New func(cfg wire.Config) (provider.Streamer, error)
	// Text returns the frames of a complete response with the id "resp-1", the given increments of text, 11 input and 7
	// output tokens. The last frame is the terminal one.
	Text func(increments ...string) []string
	// Failure is a frame that reports an overloaded provider inside a stream.
	Failure string
	// Quota is an error body for HTTP 429 that waiting does not heal.
	Quota string
	// Whole is a complete answer that is not streamed.
	Whole string
	// EnvKeys are environment variables that the protocol's SDK would read, and Leak what must then not be sent.
	EnvKeys []string
}

// Secret is the API key that the suite's clients have, and what no error may show.
const Secret = "key-that-must-stay-secret" //nolint:gosec // opens nothing

// Run runs the suite.
func Run(t *testing.T, a Adapter) {
	t.Run("responses", func(t *testing.T) { responses(t, a) })
	t.Run("answers that are no stream", func(t *testing.T) { answers(t, a) })
	t.Run("broken streams", func(t *testing.T) { streams(t, a) })
	t.Run("guard", func(t *testing.T) { guards(t, a) })
	t.Run("endings", func(t *testing.T) { endings(t, a) })
	t.Run("network", func(t *testing.T) { network(t, a) })
	t.Run("listing", func(t *testing.T) { listing(t, a) })
}

// Request is a small request for the adapter's protocol whose guard lets everything pass.
func Request(api provider.API) provider.Request {
	return provider.Request{
		Model:     provider.Model{Provider: "p", API: api, ID: "model-1", ContextWindow: 1000, MaxTokens: 500},
		System:    "Be brief.",
		Messages:  []message.Message{{Role: message.RoleUser, Content: message.Text("hello")}},
		MaxTokens: 100,
		Guard:     func([]byte) error { return nil },
	}
}

// Outcome is what one call came to.
type Outcome struct {
	Response provider.Response
	Deltas   []provider.Delta
	Err      error
	// Failure is Err as the port's error; nil without one.
	Failure *provider.Error
}

// Text is the streamed text.
func (o Outcome) Text() string {
	var out strings.Builder
	for _, d := range o.Deltas {
		if d.Kind == provider.DeltaText {
			out.WriteString(d.Text)
		}
	}
	return out.String()
}

// Call makes one call and checks what holds for every outcome.
func Call(ctx context.Context, t testing.TB, s provider.Streamer, req provider.Request) Outcome {
	t.Helper()
	var o Outcome
	o.Response, o.Err = s.Stream(ctx, req, func(d provider.Delta) { o.Deltas = append(o.Deltas, d) })
	for _, d := range o.Deltas {
		if d.At.IsZero() {
			t.Errorf("increment %+v has no time", d)
		}
	}
	if o.Err == nil {
		return o
	}
	if !errors.As(o.Err, &o.Failure) {
		t.Fatalf("error %T is no *provider.Error: %v", o.Err, o.Err)
	}
	for e := o.Err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(e.Error(), Secret) {
			t.Errorf("the key is in the error %q", e)
		}
	}
	if p := o.Failure.Partial; p != nil && p.StopReason != message.StopError && p.StopReason != message.StopAborted {
		t.Errorf("partial message has stop reason %q", p.StopReason)
	}
	return o
}

// Client returns the adapter for a server's address.
func (a Adapter) Client(t testing.TB, cfg wire.Config) provider.Streamer {
	t.Helper()
	cfg.APIKey = Secret
	s, err := a.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// call makes one call against a reply.
func (a Adapter) call(t *testing.T, cfg wire.Config, reply Reply) (Outcome, *Server) {
	t.Helper()
	server := NewServer(t, reply)
	cfg.BaseURL = server.URL
	return Call(context.Background(), t, a.Client(t, cfg), Request(a.API)), server
}

func responses(t *testing.T, a Adapter) {
	t.Run("a response has text, usage, stop reason, ids and increments with times", func(t *testing.T) { whole(t, a) })
	plain := strings.Join(a.Text("Hello."), "")
	mapped := map[string]Reply{
		"lines that end with CRLF":             Frames(strings.ReplaceAll(plain, "\n", "\r\n")),
		"lines that end with CR":               Frames(strings.ReplaceAll(plain, "\n", "\r")),
		"a byte order mark and comments":       Frames("\ufeff: welcome\n\n", ": ping\n", plain),
		"one byte at a time":                   Frames(strings.Split(plain, "")...),
		"events without names":                 Frames(withoutNames(plain)),
		"no blank line after the last event":   Frames(strings.TrimRight(plain, "\n")),
		"the content type of another kind":     Answer(200, plain, "Content-Type", "text/plain; charset=utf-8"),
		"no content type":                      Answer(200, "\n\n"+plain, "Content-Type", ""),
		"compressed although not asked for":    Gzipped(plain),
		"the connection breaks after the end":  FramesThenReset(plain),
		"the connection stays open at the end": FramesThenSilence(plain),
		"more events after the end":            Frames(plain, Event("late", `{"type":"late"}`)),
		"unknown events and empty data":        Frames(Event("future", `{"type":"future.event","object":"x","choices":[]}`), "data:\n\n", "id: 1\nretry: 5\n\n", plain),
	}
	for name, reply := range mapped {
		t.Run(name, func(t *testing.T) {
			if a.API == provider.APIOpenAIChat && name == "the connection stays open at the end" && !strings.HasSuffix(plain, "[DONE]\n\n") {
				t.Fatal("the chat script must end with [DONE]")
			}
			o, _ := a.call(t, wire.Config{}, reply)
			if o.Err != nil {
				t.Fatalf("%v: %v", o.Err, errors.Unwrap(o.Err))
			}
			if got := o.Response.Message.PlainText(); got != "Hello." || o.Text() != got {
				t.Errorf("text %q, increments %q", got, o.Text())
			}
		})
	}
	t.Run("invalid UTF-8 becomes U+FFFD", func(t *testing.T) {
		frames := a.Text("abc")
		for i := range frames {
			frames[i] = strings.ReplaceAll(frames[i], "abc", "a\xff\xfec")
		}
		o, _ := a.call(t, wire.Config{}, Frames(frames...))
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if text := o.Response.Message.PlainText(); strings.Trim(text, "\uFFFD") != text || !strings.HasPrefix(text, "a\uFFFD") || !strings.HasSuffix(text, "c") {
			t.Errorf("text %q", text)
		}
	})
}

// whole reads one response and looks at all that it brought.
func whole(t *testing.T, a Adapter) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { now = now.Add(time.Second); return now }
	o, _ := a.call(t, wire.Config{Now: clock}, Frames(a.Text("Hel", "lo.")...))
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	m := o.Response.Message
	if m.Role != message.RoleAssistant || m.PlainText() != "Hello." || m.StopReason != message.StopStop ||
		m.Provider != "p" || m.API != string(a.API) || m.Model != "model-1" {
		t.Errorf("message %s", message.Encode(m))
	}
	if u := m.Usage; u == nil || u.Input == nil || *u.Input != 11 || u.Output == nil || *u.Output != 7 {
		t.Errorf("usage %s", message.Encode(m))
	}
	if o.Response.ResponseID != "resp-1" || o.Response.HTTPStatus != 200 || o.Response.RawStopReason == "" {
		t.Errorf("response %+v", o.Response)
	}
	wantIncrements(t, o)
}

// wantIncrements wants "Hel" and "lo.", one after the other, in the first block of "resp-1".
func wantIncrements(t *testing.T, o Outcome) {
	t.Helper()
	if len(o.Deltas) != 2 || o.Text() != "Hello." || !o.Deltas[0].At.Before(o.Deltas[1].At) {
		t.Errorf("increments %+v", o.Deltas)
	}
	for _, d := range o.Deltas {
		if d.Block != 0 || d.ResponseID != "resp-1" {
			t.Errorf("increment %+v", d)
		}
	}
}

// withoutNames removes the "event:" lines.
func withoutNames(stream string) string {
	lines := strings.Split(stream, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "event:") }), "\n")
}

// Benchmark measures one response of 2,000 increments, from the request to the message.
func Benchmark(b *testing.B, a Adapter) {
	increments := make([]string, 2000)
	for i := range increments {
		increments[i] = "word and "
	}
	body := strings.Join(a.Text(increments...), "")
	server := NewServer(b, Answer(200, body, "Content-Type", "text/event-stream"))
	client := a.Client(b, wire.Config{BaseURL: server.URL})
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Stream(context.Background(), Request(a.API), func(provider.Delta) {}); err != nil {
			b.Fatal(err)
		}
	}
}
