// Package providers runs the model adapters against servers that speak the providers' protocols: a mock server that
// others wrote (npm package @copilotkit/aimock), and the project's scripted model server.
//
// Guarantees: every case runs on all three protocols; whether a request arrived is asked of the server, not of the
// client; a missing server fails the tests, it never skips them.
package providers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/anthropic"
	"github.com/agentloop/agentloop/pkg/provider/openaichat"
	"github.com/agentloop/agentloop/pkg/provider/openairesponses"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

// aimock is the address of the mock server of this test binary.
var aimock string

func TestMain(m *testing.M) {
	stop, err := startAimock()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mock model server:", err)
		os.Exit(1)
	}
	code := m.Run()
	stop()
	os.Exit(code)
}

var listening = regexp.MustCompile(`listening on (http://\S+)`)

func startAimock() (stop func(), err error) {
	install := exec.Command("aimock/install.sh")
	install.Stderr = os.Stderr
	program, err := install.Output()
	if err != nil {
		return nil, fmt.Errorf("install: %w", err)
	}
	cmd := exec.Command("node", strings.TrimSpace(string(program)), "-p", "0", "-f", "aimock/fixtures.json", "--strict", "--validate-on-load")
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	said := ""
	for lines := bufio.NewScanner(output); lines.Scan(); {
		said += lines.Text() + "\n"
		if found := listening.FindStringSubmatch(lines.Text()); found != nil {
			aimock = found[1]
			go func() { _, _ = io.Copy(io.Discard, output) }() // ends with the process
			return stop, nil
		}
	}
	stop()
	return nil, fmt.Errorf("it ended without listening: %s", said)
}

// protocol is one adapter and the models' name for its protocol. mark is what its requests of one test are known by.
type protocol struct {
	api  provider.API
	new  func(cfg wire.Config) (provider.Streamer, error)
	mark string
}

var protocols = []protocol{
	{api: provider.APIAnthropicMessages, new: func(cfg wire.Config) (provider.Streamer, error) { return anthropic.New(anthropic.Config{Config: cfg}) }},
	{api: provider.APIOpenAIChat, new: func(cfg wire.Config) (provider.Streamer, error) {
		return openaichat.New(openaichat.Config{Config: cfg})
	}},
	{api: provider.APIOpenAIResponses, new: func(cfg wire.Config) (provider.Streamer, error) {
		return openairesponses.New(openairesponses.Config{Config: cfg})
	}},
}

var marks atomic.Int64

// each runs a case on all protocols against the mock server.
func each(t *testing.T, cfg wire.Config, check func(t *testing.T, p protocol, s provider.Streamer)) {
	for _, p := range protocols {
		t.Run(string(p.api), func(t *testing.T) {
			cfg := cfg
			cfg.BaseURL, cfg.APIKey = aimock+"/v1", "mock-key"
			p.mark = fmt.Sprintf("%s %d", t.Name(), marks.Add(1)) // a test may run several times
			cfg.Headers = map[string]string{"X-Test-Id": p.mark}
			s, err := p.new(cfg)
			if err != nil {
				t.Fatal(err)
			}
			check(t, p, s)
		})
	}
}

func ask(p protocol, texts ...message.Message) provider.Request {
	return provider.Request{
		Model:    provider.Model{Provider: "mock", API: p.api, ID: "mock-model", ContextWindow: 200000, MaxTokens: 8000, Thinking: provider.ThinkingAdaptive},
		System:   "You are a mock.",
		Messages: texts, MaxTokens: 1000,
		Tools: []message.Tool{{Name: "add", Description: "Adds.", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}}`)},
			{Name: "now", Description: "Tells the time.", Parameters: json.RawMessage(`{"type":"object"}`)}},
		PromptCache: true,
		Guard:       func([]byte) error { return nil },
	}
}

func user(text string) message.Message {
	return message.Message{Role: message.RoleUser, Content: message.Text(text)}
}

func result(id, name, text string) message.Message {
	return message.Message{Role: message.RoleToolResult, ToolCallID: id, ToolName: name, Content: message.Text(text)}
}

// call makes one call and returns the streamed text beside the response.
func call(t *testing.T, s provider.Streamer, req provider.Request) (provider.Response, string) {
	t.Helper()
	var streamed strings.Builder
	resp, err := s.Stream(t.Context(), req, func(d provider.Delta) {
		if d.Kind == provider.DeltaText {
			streamed.WriteString(d.Text)
		}
	})
	if err != nil {
		t.Fatalf("%v: %v", err, errors.Unwrap(err))
	}
	return resp, streamed.String()
}

func failure(t *testing.T, s provider.Streamer, req provider.Request) *provider.Error {
	t.Helper()
	_, err := s.Stream(t.Context(), req, func(provider.Delta) {})
	var f *provider.Error
	if !errors.As(err, &f) {
		t.Fatalf("error %v is no *provider.Error", err)
	}
	return f
}

// arrived asks the mock server how many requests with a mark it has seen.
func arrived(t *testing.T, mark string) int {
	t.Helper()
	resp, err := http.Get(aimock + "/__aimock/journal")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var journal []struct {
		Headers map[string]string `json:"headers"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&journal); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, entry := range journal {
		if entry.Headers["x-test-id"] == mark {
			n++
		}
	}
	return n
}

func TestAimockText(t *testing.T) {
	each(t, wire.Config{}, func(t *testing.T, p protocol, s provider.Streamer) {
		resp, streamed := call(t, s, ask(p, user("greet me")))
		const want = "Hello there, this is an answer that takes more than one increment. \"Quoted\", <b>, é, 中文, 😀."
		if got := resp.Message.PlainText(); got != want || streamed != want || resp.Message.StopReason != message.StopStop {
			t.Errorf("text %q, streamed %q, stop reason %s", got, streamed, resp.Message.StopReason)
		}
		if u := resp.Message.Usage; u == nil || u.Input == nil || *u.Input != 21 || u.Output == nil || *u.Output != 9 {
			t.Errorf("usage %+v", u)
		}
		if resp.ResponseID == "" || resp.HTTPStatus != 200 {
			t.Errorf("response %+v", resp)
		}
		if n := arrived(t, p.mark); n != 1 {
			t.Errorf("%d requests arrived, want 1", n)
		}
	})
}

func TestAimockToolCallsAndTheirResults(t *testing.T) {
	each(t, wire.Config{}, func(t *testing.T, p protocol, s provider.Streamer) {
		first, _ := call(t, s, ask(p, user("add 1 and 2")))
		calls := first.Message.ToolCalls()
		if len(calls) != 2 || calls[0].Name != "add" || string(calls[0].Arguments) != `{"b":2,"a":1,"note":"\"x\" é"}` ||
			calls[1].Name != "now" || string(calls[1].Arguments) != `{}` || first.Message.StopReason != message.StopToolUse {
			t.Fatalf("message %s", message.Encode(first.Message))
		}
		if first.Message.PlainText() != "I add them." {
			t.Errorf("text %q", first.Message.PlainText())
		}
		second, _ := call(t, s, ask(p, user("add 1 and 2"), first.Message,
			result(calls[0].ID, "add", "3"), result(calls[1].ID, "now", "noon")))
		if got := second.Message.PlainText(); got != "The sum is 3." {
			t.Errorf("text %q", got)
		}
	})
}

func TestAimockThinking(t *testing.T) {
	each(t, wire.Config{}, func(t *testing.T, p protocol, s provider.Streamer) {
		req := ask(p, user("think first"))
		req.Reasoning = provider.LevelHigh
		resp, _ := call(t, s, req)
		blocks := resp.Message.Content.Blocks
		if len(blocks) != 2 || blocks[0].Type != message.BlockThinking || blocks[0].Thinking != "Let me think about it for a while." || resp.Message.PlainText() != "42" {
			t.Fatalf("message %s", message.Encode(resp.Message))
		}
		if p.api == provider.APIAnthropicMessages && blocks[0].ThinkingSignature != "EqQBc2lnbmF0dXJl" {
			t.Errorf("signature %q", blocks[0].ThinkingSignature)
		}
		again := ask(p, user("think first"), resp.Message, user("go on after thinking"))
		if resp, _ := call(t, s, again); resp.Message.PlainText() != "Still 42." {
			t.Errorf("text %q", resp.Message.PlainText())
		}
	})
}

func TestAimockLength(t *testing.T) {
	each(t, wire.Config{}, func(t *testing.T, p protocol, s provider.Streamer) {
		resp, _ := call(t, s, ask(p, user("reach the cap")))
		if resp.Message.StopReason != message.StopLength || resp.Message.PlainText() != "This answer was cut" {
			t.Errorf("message %s", message.Encode(resp.Message))
		}
	})
}

func TestAimockErrors(t *testing.T) {
	cases := map[string]struct {
		class      provider.Class
		status     int
		retryAfter time.Duration
	}{
		"too many requests": {provider.ClassRateLimited, 429, 7 * time.Second},
		"bad key":           {provider.ClassAuth, 401, 0},
		"too long":          {provider.ClassOverflow, 400, 0},
		"overloaded":        {provider.ClassOverloaded, 529, 0},
		"server error":      {provider.ClassTransient, 500, 0},
	}
	for prompt, c := range cases {
		t.Run(prompt, func(t *testing.T) {
			each(t, wire.Config{}, func(t *testing.T, p protocol, s provider.Streamer) {
				f := failure(t, s, ask(p, user(prompt)))
				if f.Class != c.class || f.HTTPStatus != c.status || f.RetryAfter != c.retryAfter || len(f.Detail) == 0 {
					t.Errorf("failure %+v: %s", f, f.Detail)
				}
				if n := arrived(t, p.mark); n != 1 {
					t.Errorf("%d requests arrived, want 1: the caller owns retries", n)
				}
			})
		})
	}
}

func TestAimockBreaksOff(t *testing.T) {
	each(t, wire.Config{}, func(t *testing.T, p protocol, s provider.Streamer) {
		f := failure(t, s, ask(p, user("break off")))
		if f.Class != provider.ClassTruncated || f.HTTPStatus != 200 || f.Code != "connection_lost" {
			t.Errorf("failure %+v", f)
		}
		if f.Partial == nil || !strings.HasPrefix("This answer never comes to its end", f.Partial.PlainText()) || f.Partial.StopReason != message.StopError {
			t.Errorf("partial message %+v", f.Partial)
		}
	})
}

func TestAimockIsSlow(t *testing.T) {
	each(t, wire.Config{IdleTimeout: 300 * time.Millisecond}, func(t *testing.T, p protocol, s provider.Streamer) {
		f := failure(t, s, ask(p, user("take your time")))
		if f.Class != provider.ClassTransient || f.Code != "idle_timeout" || !errors.Is(f, wire.ErrIdleTimeout) {
			t.Errorf("failure %+v", f)
		}
	})
	each(t, wire.Config{}, func(t *testing.T, p protocol, s provider.Streamer) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := s.Stream(ctx, ask(p, user("take your time")), func(provider.Delta) {})
		var f *provider.Error
		if !errors.As(err, &f) || f.Class != provider.ClassCancelled || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

func TestAimockSeesNothingOfARefusedRequest(t *testing.T) {
	each(t, wire.Config{}, func(t *testing.T, p protocol, s provider.Streamer) {
		refused := errors.New("above the reserve")
		req := ask(p, user("greet me"))
		req.Guard = func([]byte) error { return refused }
		if f := failure(t, s, req); f.Class != provider.ClassRejected || !errors.Is(f, refused) {
			t.Errorf("failure %+v", f)
		}
		if n := arrived(t, p.mark); n != 0 {
			t.Errorf("%d requests arrived", n)
		}
		req.Guard = func([]byte) error { return nil }
		call(t, s, req)
		if n := arrived(t, p.mark); n != 1 {
			t.Errorf("%d requests arrived after the one that was let through", n)
		}
	})
}
