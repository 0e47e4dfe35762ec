package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// stored reads and decodes one object of the world's session.
func stored[T any](w *world, ref cas.Ref) T {
	w.t.Helper()
	raw, err := w.store.Get(context.Background(), w.run("x", "").Scope(), ref)
	if err != nil {
		w.t.Fatalf("read %s: %v", ref.Digest, err)
	}
	object, err := session.DecodeObject[T](raw)
	if err != nil {
		w.t.Fatalf("decode %s: %v", ref.Digest, err)
	}
	return object
}

// captured are the fixed inputs that the log names, in order.
func (w *world) captured() []session.ContextSnapshot {
	w.t.Helper()
	var out []session.ContextSnapshot
	for _, e := range w.entries() {
		if e.Event.Kind == runevent.KindContextCaptured {
			out = append(out, stored[session.ContextSnapshot](w, *e.Event.Evidence.ContextRef))
		}
	}
	return out
}

// readBack is an input put together from the stored objects alone, and how many messages it has.
func (w *world) readBack(snapshot session.ContextSnapshot) ([]byte, int) {
	w.t.Helper()
	resolver := cas.NewResolver(w.store, session.MessageIn, cas.ResolverOptions{})
	raws, err := resolver.List(context.Background(), w.run("x", "").Scope(), snapshot.Messages)
	if err != nil {
		w.t.Fatalf("read the messages of an input: %v", err)
	}
	system := ""
	if snapshot.System != nil {
		system = projection.RenderSystem(stored[session.Sections](w, *snapshot.System).Sections)
	}
	var tools []message.Tool
	if snapshot.Tools != nil {
		for _, definition := range stored[session.ToolSet](w, *snapshot.Tools).Tools {
			tools = append(tools, definition.Tool)
		}
	}
	return session.AppendInput(nil, system, raws, tools), len(raws)
}

// sent is the input of a request as the model was handed it, in the stored form: images stand for their objects.
func (w *world) sent(req provider.Request) []byte {
	w.t.Helper()
	l := &loop{deps: w.deps(), run: w.run("x", "")}
	raws := make([][]byte, len(req.Messages))
	for i, m := range req.Messages {
		bare, err := l.storeImages(context.Background(), m)
		if err != nil {
			w.t.Fatal(err)
		}
		raws[i] = message.Encode(bare)
	}
	return session.AppendInput(nil, req.System, raws, req.Tools)
}

// checkInputs holds the three accounts of every request's input against each other: what the model was handed, what the
// stored objects give, and the digest and size on record. It returns the records.
func (w *world) checkInputs(t *testing.T) []session.ContextSnapshot {
	t.Helper()
	inputs := w.captured()
	if len(inputs) != len(w.model.requests) {
		t.Fatalf("%d inputs are on record and %d requests were sent", len(inputs), len(w.model.requests))
	}
	for i, snapshot := range inputs {
		input, messages := w.readBack(snapshot)
		if cas.Of(input) != snapshot.InputDigest || int64(len(input)) != snapshot.InputSize {
			t.Errorf("input %d reads back as %d bytes with %s, on record are %d with %s", i, len(input), cas.Of(input), snapshot.InputSize, snapshot.InputDigest)
		}
		if sent := w.sent(w.model.requests[i]); !bytes.Equal(sent, input) {
			t.Errorf("input %d: the model was handed %d bytes that differ from the %d stored ones", i, len(sent), len(input))
		}
		record := snapshot.Assembly
		made := projection.ModelInputProjection{
			HistoryMessageCount: record.HistoryMessageCount, Sources: session.UnpackSources(record.Sources), SkillExpansions: record.SkillExpansions,
		}
		if err := projection.Validate(made, messages, record.HistoryMessageCount); err != nil {
			t.Errorf("input %d: %v", i, err)
		}
	}
	return inputs
}

// TestInputsReadBack makes a session of runs with two requests each, in which models with and without images take turns
// and contexts and Skills come and go, and reads every input back from the store, bytes that encoders differ about
// included.
func TestInputsReadBack(t *testing.T) {
	const runs = 12
	w := newWorld(t)
	image := message.Block{Type: message.BlockImage, MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1, 2, 3}, 500))}
	text := func(s string) message.Block { return message.Block{Type: message.BlockText, Text: s} }
	long := runevent.MaxInline + 1
	w.tools.definitions = []tool.Definition{defined("add", func(d *tool.Definition) {
		d.Parameters = []byte(`{"type":"object","description":"a < b & c > d"}`)
	})}
	w.tools.call = func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: message.Blocks(text(strings.Repeat("<é>", long/4+1)), image)}, nil
	}
	for i := range runs {
		w.model.replies = []reply{calls("add", "add"), says("ok <b> \u2028 &")}
		run := w.run(fmt.Sprint("u", i), "p")
		run.Config.Model.ContextWindow = 10_000_000
		run.Config.Model.Images = i%4 != 3
		run.Config.Model.ID = []string{"m", "n"}[i/3%2]
		run.Config.Context = fmt.Sprint("context ", i/2)
		if i%3 == 0 {
			run.Config.Skills = []projection.SkillSelection{{ID: "s", Revision: "1", Name: "s<", Content: "do & <it>"}}
		}
		if i%2 == 0 {
			run.Prompt.Content = message.Blocks(text(strings.Repeat("long ", long/5+1)), image)
		}
		if got, err := w.execute(context.Background(), run); err != nil || got != completed {
			t.Fatalf("run %d: %+v, %v", i, got, err)
		}
	}
	inputs := w.checkInputs(t)
	if len(inputs) != 2*runs {
		t.Fatalf("%d inputs, want %d", len(inputs), 2*runs)
	}
	if last := inputs[len(inputs)-1]; len(last.Messages.Segments) == 0 || len(last.Assembly.SkillExpansions) == 0 {
		t.Errorf("the last input has %d segments and %d Skill expansions, want some of each", len(last.Messages.Segments), len(last.Assembly.SkillExpansions))
	}
}

// misplaced is a store whose snapshots belong to a user turn that the history does not have, as after a host replaced the
// history and kept them.
type misplaced struct{ cas.Store }

func (m misplaced) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	raw, err := m.Store.Get(ctx, scope, ref)
	return bytes.Replace(raw, []byte(`"userTurn":0`), []byte(`"userTurn":7`), 1), err
}

// TestInvalidProjectionIsNotSent: what cannot be projected ends the run before anything leaves, with its prompt kept.
func TestInvalidProjectionIsNotSent(t *testing.T) {
	cases := map[string]struct {
		change func(w *world, run *Run)
		want   string
	}{
		"a snapshot of a turn that is not there": {func(w *world, _ *Run) { w.store = misplaced{w.store} }, "userTurn 7"},
		"a section name twice": {func(_ *world, run *Run) {
			run.Config.Sections = []projection.Section{{Name: "a", Text: "x"}, {Name: "a", Text: "y"}}
		}, "name given twice"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(10)
			run := w.run("u", "hi")
			tc.change(w, &run)
			got, err := w.execute(t.Context(), run)
			if want := (Result{runevent.TypeRunFailed, ReasonInvalidProjection}); err != nil || got != want || len(w.model.requests) != 0 {
				t.Fatalf("%+v, %v; %d requests", got, err, len(w.model.requests))
			}
			if last := w.entries()[len(w.entries())-1].Event; !strings.Contains(last.Message, tc.want) {
				t.Errorf("message %q, want %q", last.Message, tc.want)
			}
			if state, _ := w.state(); len(state.History) != 3 {
				t.Errorf("history has %d messages, want the prompt kept", len(state.History))
			}
		})
	}
}
