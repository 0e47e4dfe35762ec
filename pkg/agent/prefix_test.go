package agent

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/tool"
)

// reasons is a model that answers a text with signed thinking before it.
func reasons(text string) reply {
	return func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
		out, err := says(text)(ctx, req, onDelta)
		thinking := message.Block{Type: message.BlockThinking, Thinking: "hm", ThinkingSignature: "sig of " + text}
		out.Message.Content.Blocks = append([]message.Block{thinking}, out.Message.Content.Blocks...)
		return out, err
	}
}

// TestThinkingIsBoundToItsRequest: each reply records the digest of the exact input that it was produced under, and its thinking is
// sent again only behind the same. Everything else of it is.
func TestThinkingIsBoundToItsRequest(t *testing.T) {
	cases := map[string]struct {
		change func(w *world, run *Run)
		// kept says that the thinking is sent again.
		kept bool
	}{
		"nothing has changed":        {func(*world, *Run) {}, true},
		"other instructions":         {func(_ *world, run *Run) { run.Config.Sections = []projection.Section{{Text: "Be long."}} }, false},
		"another tool":               {func(w *world, _ *Run) { w.tools.definitions = []tool.Definition{defined("read"), defined("write")} }, false},
		"another model":              {func(_ *world, run *Run) { run.Config.Model.ID = "other" }, false},
		"other runtime context only": {func(_ *world, run *Run) { run.Config.Context = "cluster: other" }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.tools.definitions = []tool.Definition{defined("read")}
			w.model.replies = []reply{reasons("first"), says("second")}
			run := w.run("u1", "hi")
			run.Config.Model.Thinking = provider.ThinkingAdaptive
			if got, err := w.execute(t.Context(), run); err != nil || got != completed {
				t.Fatalf("%+v, %v", got, err)
			}
			next := w.run("u2", "go on")
			next.Config.Model.Thinking = provider.ThinkingAdaptive
			tc.change(w, &next)
			if got, err := w.execute(t.Context(), next); err != nil || got != completed {
				t.Fatalf("%+v, %v", got, err)
			}
			_, history := w.state()
			var recorded []string
			for _, m := range history {
				if m.Role == message.RoleAssistant {
					recorded = append(recorded, m.Prefix)
				}
			}
			var sent []string
			for _, req := range w.model.requests {
				var digests []projection.Digest
				for _, m := range req.Messages {
					digests = append(digests, projection.MessageDigest(m))
				}
				sent = append(sent, projection.PrefixDigest(req.System, req.Tools, digests...))
			}
			if diff := cmp.Diff(sent, recorded); diff != "" {
				t.Errorf("recorded digests (-of what was sent +got):\n%s", diff)
			}
			thinking, text := false, false
			for _, m := range w.model.requests[1].Messages {
				for _, b := range m.Content.Blocks {
					thinking, text = thinking || b.ThinkingSignature == "sig of first", text || b.Text == "first"
				}
			}
			if thinking != tc.kept || !text {
				t.Errorf("thinking is sent again: %v, want %v; the text is: %v", thinking, tc.kept, text)
			}
		})
	}
}
