package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/pkg/cas/codec"
	"github.com/agentloop/agentloop/pkg/cas/known"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

type storageConfig struct{ turns, context int }

func (c *storageConfig) bind(fs *flag.FlagSet) {
	fs.IntVar(&c.turns, "storage-turns", 200, "model requests of the stored run")
	fs.IntVar(&c.context, "storage-context", 100_000, "bytes of an average model input of the stored run")
}

// measureStorage executes a run with the real loop and counts what reaches the object store. It is compared with storing
// each model input whole, which is what the recorded evidence amounts to. The figures do not depend on the machine.
func measureStorage(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	got, err := storeRun(ctx, c.storage)
	if err != nil {
		return nil, err
	}
	requests := float64(got.requests)
	say("%d requests, %.0f KB of context on average, %d objects", got.requests, float64(got.whole.plain)/requests/1e3, got.puts)
	return []Figure{
		figure("storage", "average context", "KB", float64(got.whole.plain)/requests/1e3),
		figure("storage", "puts for each request", "", float64(got.puts)/requests).atMost(3.2),
		figure("storage", "stored for each request", "KB", float64(got.stored.encoded)/requests/1e3),
		figure("storage", "the same before compression", "KB", float64(got.stored.plain)/requests/1e3),
		figure("storage", "whole inputs as they are sent ÷ bytes in the store", "×", float64(got.whole.plain)/float64(got.stored.encoded)).atLeast(24),
		figure("storage", "the same, both before compression", "×", float64(got.whole.plain)/float64(got.stored.plain)),
		figure("storage", "the same, both compressed", "×", float64(got.whole.encoded)/float64(got.stored.encoded)),
	}, nil
}

// volume is a number of bytes before and after the envelope of stored objects, which compresses.
type volume struct{ plain, encoded int64 }

func (v *volume) add(data []byte) error {
	encoded, err := codec.Encode(data)
	if err != nil {
		return err
	}
	v.plain += int64(len(data))
	v.encoded += int64(len(encoded))
	return nil
}

// stored is what one run put into the store, and what storing every model input whole would have been.
type stored struct {
	requests int
	puts     int64
	stored   volume
	whole    volume
}

// weighing is a store that weighs each object as a durable one keeps it.
type weighing struct {
	cas.Store
	mu     sync.Mutex
	volume volume
}

// Put implements cas.Store.
func (w *weighing) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	w.mu.Lock()
	err := w.volume.add(data)
	w.mu.Unlock()
	if err != nil {
		return cas.Ref{}, err
	}
	return w.Store.Put(ctx, scope, mediaType, data)
}

// storeRun executes a run of so many turns whose context grows from nothing to twice the wanted average.
func storeRun(ctx context.Context, c storageConfig) (stored, error) {
	if c.turns < 2 || c.context < 1000 {
		return stored{}, errors.New("use at least 2 turns and 1000 bytes of context")
	}
	weighed := &weighing{Store: memstore.New()}
	counted := castest.NewCounting(weighed)
	remembered, err := known.New(counted, known.Options{})
	if err != nil {
		return stored{}, err
	}
	model := &scripted{turns: c.turns, random: rand.New(rand.NewPCG(3, 4))}
	tools := &reading{bytes: max(2*c.context/c.turns-overhead, 50), random: rand.New(rand.NewPCG(5, 6))}
	number := 0
	result, err := agent.Execute(ctx, agent.Deps{
		Log: memlog.New(), Store: remembered, Model: model, Tools: tools, Now: time.Now,
		NewID: func() string { number++; return fmt.Sprintf("request-%06d-0000-0000-0000-000000000000", number) },
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		Live:  func(agent.Live) {}, Logger: slog.New(slog.DiscardHandler),
	}, storedRun(c.turns))
	if err != nil {
		return stored{}, err
	}
	if result.Event != runevent.TypeRunFinished || model.requests != c.turns {
		return stored{}, fmt.Errorf("the run ended as %s %s after %d requests", result.Event, result.Reason, model.requests)
	}
	return stored{requests: model.requests, puts: counted.Counts().Puts, stored: weighed.volume, whole: model.whole}, nil
}

// overhead is about what a turn adds to the context besides its tool result, in bytes.
const overhead = 640

func storedRun(turns int) agent.Run {
	return agent.Run{
		Namespace: "bench", Name: "stored", UID: "5f9f5c1e-8d0f-4a5e-9d5c-2f1d8a4b7c6d", SessionUID: "0b8f1c52-6f0e-4c8e-a4c9-95a1a8d6e3f1",
		AgentKey: runevent.MainAgent, Operation: "Prompt", Worker: "worker-1",
		Prompt: message.Message{Role: message.RoleUser, Content: message.Text("Read every file and say what it is for.")},
		Config: session.RunConfig{
			V: session.ObjectVersion, Operation: "Prompt", Agent: runevent.MainAgent, Model: benchModel, MaxOutputTokens: 4096,
			Sections: []projection.Section{{Name: "project", Text: "You describe files. Be brief."}}, Context: "branch: main",
			Limits: session.Limits{MaxTurns: turns + 1, MaxAttempts: 3},
		},
	}
}

// scripted is a model that calls the tool in every turn but the last, and weighs each input that it gets.
type scripted struct {
	turns, requests int
	random          *rand.Rand
	whole           volume
}

// Stream implements provider.Streamer.
func (m *scripted) Stream(_ context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	if err := req.Guard(fmt.Appendf(nil, `{"max_tokens":%d}`, req.MaxTokens)); err != nil {
		return provider.Response{}, &provider.Error{Class: provider.ClassRejected, Err: err}
	}
	raws := make([][]byte, len(req.Messages))
	for i, one := range req.Messages {
		raws[i] = message.Encode(one)
	}
	if err := m.whole.add(session.AppendInput(nil, req.System, raws, req.Tools)); err != nil {
		return provider.Response{}, err
	}
	m.requests++
	id := fmt.Sprintf("msg_%024d", m.requests)
	text := prose(m.random, 120)
	answer := message.Message{
		Role: message.RoleAssistant, StopReason: message.StopToolUse, Usage: &message.Usage{Input: count(25_000), Output: count(90)},
		Content: message.Blocks(message.Block{Type: message.BlockText, Text: text}),
	}
	if m.requests == m.turns {
		answer.StopReason = message.StopStop
	} else {
		answer.Content.Blocks = append(answer.Content.Blocks, message.Block{
			Type: message.BlockToolCall, ID: fmt.Sprintf("toolu_%024d", m.requests), Name: toolName, Arguments: json.RawMessage(fmt.Sprintf(`{"path":"src/file%03d.go"}`, m.requests)),
		})
	}
	onDelta(provider.Delta{Kind: provider.DeltaText, Text: text, At: time.Now(), ResponseID: id})
	return provider.Response{ResponseID: id, RawStopReason: "tool_use", HTTPStatus: 200, Message: answer}, nil
}

const toolName = "files__read"

// reading is a tool set with one tool, which returns texts of one size.
type reading struct {
	bytes  int
	random *rand.Rand
}

// Connect implements agent.Tools.
func (r *reading) Connect(context.Context, *session.ToolSet) (tool.Set, error) { return r, nil }

// Definitions implements tool.Set.
func (r *reading) Definitions() []tool.Definition {
	return []tool.Definition{{
		Tool: message.Tool{
			Name: toolName, Description: "Returns a part of a file.", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`),
		},
		Server: "files", RemoteName: "read", ReadOnly: true, Idempotent: true,
	}}
}

// Call implements tool.Set.
func (r *reading) Call(context.Context, tool.Call, func(string)) (tool.Result, error) {
	return tool.Result{
		Content: message.Blocks(message.Block{Type: message.BlockText, Text: prose(r.random, r.bytes)}),
		Audit:   tool.Audit{Server: "files", Method: "tools/call", Tool: "read", Outcome: "ok", Bytes: int64(r.bytes), Duration: time.Millisecond},
	}, nil
}

// Close implements tool.Set.
func (r *reading) Close() error { return nil }
