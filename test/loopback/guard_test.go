package loopback

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
)

func start(t *testing.T) *Engine {
	t.Helper()
	e, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// load gives the engine a model of each protocol with one script; $MODEL in it stands for the model's id.
func load(t *testing.T, e *Engine, script string) map[provider.API]provider.Model {
	t.Helper()
	out := map[provider.API]provider.Model{}
	for _, api := range APIs {
		if _, err := e.Models.LoadYAML([]byte(strings.ReplaceAll(script, "$MODEL", string(api))), ""); err != nil {
			t.Fatal(err)
		}
		out[api] = provider.Model{
			Provider: "p-" + string(api), API: api, ID: string(api), ContextWindow: 32_000, MaxTokens: 4096, Thinking: provider.ThinkingNone,
		}
	}
	return out
}

// entries are the entries of a session's stream, in short.
func entries(t *testing.T, e *Engine, run agent.Run) []string {
	t.Helper()
	var out []string
	err := e.Deps.Log.Read(t.Context(), run.Stream(), 0, func(record runevent.Record) error {
		entry, err := runevent.Decode(record.Raw)
		if err != nil {
			return err
		}
		name := string(entry.Event.Type)
		if entry.Event.Kind != "" {
			name = string(entry.Event.Kind)
		}
		if name != string(runevent.TypeBody) {
			out = append(out, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// capOf is the field in which a protocol declares its output cap.
var capOf = map[provider.API]string{
	provider.APIAnthropicMessages: "max_tokens", provider.APIOpenAIChat: "max_completion_tokens", provider.APIOpenAIResponses: "max_output_tokens",
}

// withCap returns a hook that puts a value in the place of the body's own cap; an empty one takes the cap out.
func withCap(t *testing.T, field, value string) func([]byte) ([]byte, error) {
	return func(body []byte) ([]byte, error) {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			return nil, err
		}
		if fields[field] == nil {
			t.Errorf("the adapter declares no %s: %s", field, body)
		}
		fields[field] = json.RawMessage(value)
		if value == "" {
			delete(fields, field)
		}
		return json.Marshal(fields)
	}
}

const answering = `
model: $MODEL
replies: [{content: [{text: fine}], repeat: true}]
`

// TestOutputCapsOnTheWire changes the cap of the exact body in the last moment before it leaves, in each protocol. One that
// the budget does not cover never reaches the provider; the session is usable afterwards.
func TestOutputCapsOnTheWire(t *testing.T) {
	cases := map[string]struct {
		value string
		// fault is what the refusal says; empty for a request that passes.
		fault string
	}{
		"omitted although less than the ceiling is reserved": {"", "the cap is omitted"},
		"one above the reserve":                              {"1001", "1001"},
		"above the model's ceiling":                          {"8192", "8192"},
		"a number in a text":                                 {`"1000"`, "positive safe integer"},
		"a fraction":                                         {"999.5", "positive safe integer"},
		"null":                                               {"null", "positive safe integer"},
		"zero":                                               {"0", "positive safe integer"},
		"as reserved":                                        {"1000", ""},
		"less than reserved":                                 {"16", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := start(t)
			models := load(t, e, answering)
			for _, api := range APIs {
				run := Run(string(api), "first-"+string(api), models[api], "hi")
				run.Config.MaxOutputTokens = 1000
				run.CallerHook = withCap(t, capOf[api], tc.value)
				got, err := e.Execute(t.Context(), run)
				if err != nil {
					t.Fatal(err)
				}
				sent := e.Models.Requests(string(api))
				if tc.fault == "" {
					if got.Event != runevent.TypeRunFinished || len(sent) != 1 || !strings.Contains(sent[0].Raw, `"`+capOf[api]+`":`+tc.value) {
						t.Errorf("%s: %+v, %d requests", api, got, len(sent))
					}
					continue
				}
				if got.Event != runevent.TypeRunFailed || got.Reason != agent.ReasonOutputCapRejected || len(sent) != 0 {
					t.Errorf("%s: %+v, %d requests were sent", api, got, len(sent))
				}
				want := []string{"run.started", "message.user", "context.captured", "model.rejected", "state.committed", "run.failed"}
				if diff := cmp.Diff(want, entries(t, e, run)); diff != "" {
					t.Errorf("%s: entries (-want +got):\n%s", api, diff)
				}
				if text := refusal(t, e, run); !strings.Contains(text, tc.fault) {
					t.Errorf("%s: refused with %q, want %q", api, text, tc.fault)
				}
				next := Run(string(api), "next-"+string(api), models[api], "and now?")
				if got, err := e.Execute(t.Context(), next); err != nil || got.Event != runevent.TypeRunFinished {
					t.Errorf("%s: the next run: %+v, %v", api, got, err)
				}
			}
		})
	}
}

// refusal is the text of the stream's model.rejected.
func refusal(t *testing.T, e *Engine, run agent.Run) string {
	t.Helper()
	text := ""
	err := e.Deps.Log.Read(t.Context(), run.Stream(), 0, func(record runevent.Record) error {
		entry, err := runevent.Decode(record.Raw)
		if entry.Event.Type == runevent.TypeModelRejected {
			text = entry.Event.Message
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestOmittedCapUnderTheWholeCeiling: where all of the ceiling is reserved, a body without a cap asks for no more than that.
func TestOmittedCapUnderTheWholeCeiling(t *testing.T) {
	e := start(t)
	models := load(t, e, answering)
	for _, api := range []provider.API{provider.APIOpenAIChat, provider.APIOpenAIResponses} { // Messages requires one
		var live []agent.Live
		e.Deps.Live = func(l agent.Live) { live = append(live, l) }
		run := Run(string(api), string(api), models[api], "hi")
		run.CallerHook = withCap(t, capOf[api], "")
		if got, err := e.Execute(t.Context(), run); err != nil || got.Event != runevent.TypeRunFinished {
			t.Errorf("%s: %+v, %v", api, got, err)
		}
		if last := live[len(live)-1]; last.Budget.RequestOutputTokenLimit != nil || last.Budget.ReservedOutputTokens != 4096 {
			t.Errorf("%s: %+v", api, last.Budget)
		}
	}
}

// TestSummaryCapOnTheWire: the cap of a request for a summary is guarded by itself, in each protocol: with it left out, there is no
// summary, and the conversation goes on without.
func TestSummaryCapOnTheWire(t *testing.T) {
	for _, api := range APIs {
		t.Run(string(api), func(t *testing.T) {
			e := start(t)
			model := load(t, e, answering)[api]
			model.MaxTokens = 5000
			old := strings.Repeat("word ", 6400)
			for _, uid := range []string{"one", "two"} {
				if got, err := e.Execute(t.Context(), Run("s", uid, model, old)); err != nil || got.Event != runevent.TypeRunFinished {
					t.Fatalf("%+v, %v", got, err)
				}
			}
			run := Run("s", "three", model, old)
			seen := 0
			run.CallerHook = func(body []byte) ([]byte, error) {
				if seen++; seen == 1 {
					return withCap(t, capOf[api], "")(body)
				}
				return body, nil
			}
			if got, err := e.Execute(t.Context(), run); err != nil || got.Event != runevent.TypeRunFinished {
				t.Fatalf("%+v, %v", got, err)
			}
			all := entries(t, e, run)
			want := []string{"run.started", "message.user", "context.captured", "model.rejected", "context.captured", "model.completed", "state.committed", "run.finished"}
			if diff := cmp.Diff(want, all[len(all)-len(want):]); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if sent := e.Models.Requests(string(api)); len(sent) != 3 {
				t.Errorf("%d requests were sent, want those of the conversation", len(sent))
			}
		})
	}
}
