// Package loopback runs the real loop in this process: the real adapters ask the scripted model server over HTTP on the
// loopback interface, and log and objects are kept in memory.
//
// Guarantees: what a model server sees are the bytes that a provider would; nothing but the model, the tools and the clock's
// pauses is scripted; calibration is learnt and used as it is in production.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/budget/o200k"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/anthropic"
	"github.com/agentloop/agentloop/pkg/provider/openaichat"
	"github.com/agentloop/agentloop/pkg/provider/openairesponses"
	"github.com/agentloop/agentloop/pkg/provider/wire"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/test/modelserver"
)

// APIs are the protocols that the model server speaks.
var APIs = []provider.API{provider.APIAnthropicMessages, provider.APIOpenAIChat, provider.APIOpenAIResponses}

// Engine is one model server with the loop that asks it. Close ends it.
type Engine struct {
	Models *modelserver.Server
	// Deps are what runs are executed with, but for the model, which follows from the run's. They may be changed between runs.
	Deps agent.Deps

	http    *http.Server
	served  chan struct{}
	clients map[provider.API]client
}

type client interface {
	provider.Streamer
	Close()
}

// New starts a model server without models, and has runs use the given tools; nil means none.
func New(tools agent.Tools) (*Engine, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	models := modelserver.New(modelserver.Options{})
	e := &Engine{
		Models: models, http: &http.Server{Handler: models, ReadHeaderTimeout: time.Minute}, served: make(chan struct{}),
		clients: map[provider.API]client{},
	}
	go func() {
		defer close(e.served)
		_ = e.http.Serve(listener) // its error is that it was closed
	}()
	if err := e.connect("http://" + listener.Addr().String()); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if tools == nil {
		tools = NoTools{}
	}
	var ids atomic.Int64
	e.Deps = agent.Deps{
		Log: memlog.New(), Store: memstore.New(), Tools: tools, Now: time.Now,
		NewID:     func() string { return fmt.Sprintf("id-%d", ids.Add(1)) },
		Sleep:     func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		Live:      func(agent.Live) {},
		Logger:    slog.New(slog.DiscardHandler),
		Estimator: Estimator, Calibrations: &Calibrations{},
	}
	return e, nil
}

// connect makes a client for each protocol.
func (e *Engine) connect(url string) error {
	config := wire.Config{BaseURL: url, APIKey: "key"}
	one, err := anthropic.New(anthropic.Config{Config: config})
	if err != nil {
		return err
	}
	e.clients[provider.APIAnthropicMessages] = one
	config.BaseURL += "/v1"
	two, err := openaichat.New(openaichat.Config{Config: config})
	if err != nil {
		return err
	}
	e.clients[provider.APIOpenAIChat] = two
	three, err := openairesponses.New(openairesponses.Config{Config: config})
	if err != nil {
		return err
	}
	e.clients[provider.APIOpenAIResponses] = three
	return nil
}

// Close ends the model server and its connections.
func (e *Engine) Close() error {
	for _, c := range e.clients {
		c.Close()
	}
	e.Models.Close()
	err := e.http.Close()
	<-e.served
	return err
}

// Client returns the adapter of a protocol.
func (e *Engine) Client(api provider.API) provider.Streamer { return e.clients[api] }

// Execute executes the run with the adapter of its model, or with Deps.Model where that is set.
func (e *Engine) Execute(ctx context.Context, run agent.Run) (agent.Result, error) {
	deps := e.Deps
	if deps.Model == nil {
		deps.Model = e.clients[run.Config.Model.API]
	}
	return agent.Execute(ctx, deps, run)
}

// Run is a run of a session with one text as its prompt. The caller may change all of it.
func Run(sessionUID, uid string, model provider.Model, prompt string) agent.Run {
	return agent.Run{
		Namespace: "loopback", Name: uid, UID: uid, SessionUID: sessionUID, AgentKey: runevent.MainAgent, Operation: agent.OperationPrompt, Worker: "worker",
		Prompt: message.Message{Role: message.RoleUser, Content: message.Text(prompt)},
		Config: session.RunConfig{
			V: session.ObjectVersion, Operation: agent.OperationPrompt, Agent: runevent.MainAgent, Model: model,
			Sections:   []projection.Section{{Name: "project", Text: "Answer briefly."}},
			Compaction: session.Compaction{Automatic: true},
			Limits:     session.Limits{RetryMaxAttempts: 1},
		},
	}
}

// Estimator is the estimator of a name, as the manager has them.
func Estimator(name string) budget.Estimator {
	switch name {
	case budget.Scan.Name():
		return budget.Scan
	case o200k.Name:
		return o200k.New()
	}
	return budget.Heuristic
}

// Calibrations keeps calibrations in memory. The zero value knows nothing.
type Calibrations struct {
	mu    sync.Mutex
	known map[agent.ModelKey]budget.Calibration
}

// Get implements agent.Calibrations.
func (c *Calibrations) Get(_ context.Context, key agent.ModelKey) (budget.Calibration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[key], nil
}

// Learn implements agent.Calibrations.
func (c *Calibrations) Learn(_ context.Context, key agent.ModelKey, measured budget.ContextBudget, used *message.Usage) (budget.Calibration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[agent.ModelKey]budget.Calibration{}
	}
	c.known[key] = c.known[key].Observe(measured, used)
	return c.known[key], nil
}

// NoTools is a set without tools.
type NoTools struct{}

// Connect implements agent.Tools.
func (n NoTools) Connect(context.Context, *session.ToolSet) (tool.Set, error) { return n, nil }

// Definitions implements tool.Set.
func (NoTools) Definitions() []tool.Definition { return nil }

// Call implements tool.Set.
func (NoTools) Call(context.Context, tool.Call, func(string)) (tool.Result, error) {
	return tool.Result{}, errors.New("there are no tools")
}

// Close implements tool.Set.
func (NoTools) Close() error { return nil }
