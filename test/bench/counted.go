package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/test/bench/corpus"
	"github.com/agentloop/agentloop/test/loopback"
	"github.com/agentloop/agentloop/test/modelserver"
)

// countedRequests are judged for each protocol and row, after warmUp others from which the calibration learns.
const countedRequests = 200

// measureCounted runs conversations with the real loop and its adapters against a model server that counts each request by
// itself, with the o200k vocabulary, as it came over the wire, and refuses what leaves no room for the declared answer. A
// verdict is contradicted when the loop sent a request that the server refuses.
func measureCounted(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	samples, err := corpus.Load(ctx, c.load.root)
	if err != nil {
		return nil, err
	}
	var figures []Figure
	for _, estimator := range []budget.Estimator{budget.Heuristic, budget.Scan} {
		for _, window := range []int64{32_000, 200_000} {
			for _, calibrate := range []bool{false, true} {
				setting := counting{samples: samples, estimator: estimator.Name(), window: window, calibrate: calibrate, requests: countedRequests}
				got, err := setting.measure(ctx)
				if err != nil {
					return nil, err
				}
				say("%s: %d of %d contradicted, fullest %.3f", setting, got.refused, got.judged, got.fullest)
				f := figure("counted", setting.String(), fmt.Sprintf("of %d contradicted", got.judged), float64(got.refused))
				if calibrate {
					f = f.atMost(0)
				}
				figures = append(figures, f, figure("counted", setting.String()+", fullest accepted", "of the window", got.fullest))
			}
		}
	}
	return figures, nil
}

// counting is one row: conversations with three models of one window, one for each protocol.
type counting struct {
	samples   []corpus.Sample
	estimator string
	window    int64
	calibrate bool
	// requests is how many are judged for each protocol.
	requests int
}

func (c counting) String() string {
	name := fmt.Sprintf("%s, window %d", c.estimator, c.window)
	if c.calibrate {
		name += ", calibrated"
	}
	return name
}

// contradictions is what came of a row.
type contradictions struct {
	judged, refused int
	// fullest is the largest share of the window that an accepted request took with its reserved answer.
	fullest float64
}

func (c counting) measure(ctx context.Context) (contradictions, error) {
	var all contradictions
	random := rand.New(rand.NewPCG(5, uint64(c.window)))
	shelf := &shelf{talk: &talk{samples: c.samples, random: random}}
	engine, err := loopback.New(shelf)
	if err != nil {
		return all, err
	}
	for _, api := range loopback.APIs {
		model := provider.Model{Provider: "loopback", API: api, ID: string(api), ContextWindow: c.window, MaxTokens: 4096, Thinking: provider.ThinkingNone}
		got, err := c.converse(ctx, engine, shelf.talk, model)
		if err != nil {
			return all, errors.Join(err, engine.Close())
		}
		all.judged, all.refused, all.fullest = all.judged+got.judged, all.refused+got.refused, max(all.fullest, got.fullest)
	}
	return all, engine.Close()
}

// converse holds conversations with one model until enough of its requests were judged.
func (c counting) converse(ctx context.Context, engine *loopback.Engine, talk *talk, model provider.Model) (contradictions, error) {
	if err := engine.Models.Load(reader(model)); err != nil {
		return contradictions{}, err
	}
	judge := &judge{to: engine.Client(model.API), skip: warmUp, window: model.ContextWindow}
	engine.Deps.Model = judge
	for number := 0; judge.judged < c.requests; number++ {
		talk.theme = talk.random.IntN(len(talk.samples))
		name := fmt.Sprintf("%s-%d", model.ID, number)
		for prompt := range 2 + talk.random.IntN(20) {
			run := loopback.Run(name, fmt.Sprintf("%s-%d", name, prompt), model, talk.next())
			run.Config.Estimator, run.Config.Calibrate = c.estimator, c.calibrate
			result, err := engine.Execute(ctx, run)
			if err != nil {
				return judge.contradictions, err
			}
			if result.Event != runevent.TypeRunFinished {
				if result.Reason != agent.ReasonBudgetExceeded && result.Reason != agent.ReasonRejected {
					return judge.contradictions, fmt.Errorf("run %s ended as %s %s", run.UID, result.Event, result.Reason)
				}
				break
			}
		}
	}
	return judge.contradictions, nil
}

// reader is a model that reads two texts for each prompt before it answers.
func reader(model provider.Model) modelserver.Script {
	text := func(s string) []modelserver.Part { t := modelserver.Text(s); return []modelserver.Part{{Text: &t}} }
	summary, second, read := "working memory of an agent", 2, []modelserver.Part{{
		ToolCall: &modelserver.ToolCall{Name: toolName, Arguments: json.RawMessage(`{"path":"notes/today.md"}`)},
	}}
	last := 3
	off := false
	return modelserver.Script{
		Model: model.ID, Tokenizer: modelserver.TokenizerO200k, Window: model.ContextWindow, WindowIncludesOutput: true, Record: &off,
		Replies: []modelserver.Reply{
			{Match: &modelserver.Match{System: &summary}, Content: text("They read notes and talk of what stands in them."), Repeat: true},
			{Match: &modelserver.Match{Step: &last}, Repeat: true},
			{Match: &modelserver.Match{Step: &second}, Content: read, Repeat: true},
			{Content: read, Repeat: true},
		},
	}
}

// judge passes requests on and notes what the server says of them. A request that the server refuses as too long was
// allowed wrongly.
type judge struct {
	to     provider.Streamer
	skip   int
	window int64
	sent   int
	contradictions
}

// Stream implements provider.Streamer.
func (j *judge) Stream(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	response, err := j.to.Stream(ctx, req, onDelta)
	j.sent++
	if j.sent <= j.skip {
		return response, err
	}
	j.judged++
	var failed *provider.Error
	if errors.As(err, &failed) && failed.Class == provider.ClassOverflow {
		j.refused++
		return response, err
	}
	if counted, ok := provider.ContextTokens(response.Message.Usage); ok {
		j.fullest = max(j.fullest, float64(counted+req.MaxTokens)/float64(j.window))
	}
	return response, err
}

// talk chooses what is said next: mostly texts of the conversation's own kind, now and then of any.
type talk struct {
	samples []corpus.Sample

	mu     sync.Mutex
	random *rand.Rand
	theme  int
}

func (t *talk) next() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.theme + t.random.IntN(40)
	if t.random.IntN(4) == 0 {
		at = t.random.IntN(len(t.samples))
	}
	return t.samples[at%len(t.samples)].Text
}

// shelf is a tool set with one tool, which returns texts of the talk.
type shelf struct{ talk *talk }

// Connect implements agent.Tools.
func (s *shelf) Connect(context.Context, *session.ToolSet) (tool.Set, error) { return s, nil }

// Definitions implements tool.Set.
func (s *shelf) Definitions() []tool.Definition { return (&reading{}).Definitions() }

// Call implements tool.Set.
func (s *shelf) Call(context.Context, tool.Call, func(string)) (tool.Result, error) {
	text := s.talk.next()
	return tool.Result{
		Content: message.Blocks(message.Block{Type: message.BlockText, Text: text}),
		Audit:   tool.Audit{Server: "files", Method: "tools/call", Tool: "read", Outcome: "ok", Bytes: int64(len(text))},
	}, nil
}

// Close implements tool.Set.
func (s *shelf) Close() error { return nil }
