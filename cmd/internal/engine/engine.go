// Package engine puts together what executes runs, for the programs that do: clients of model endpoints, connections to
// tool servers, estimators.
//
// Guarantees: nothing is dialled but by the address policy that the program was given, and making a client does no I/O.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/budget/o200k"
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/anthropic"
	"github.com/agentloop/agentloop/pkg/provider/openaichat"
	"github.com/agentloop/agentloop/pkg/provider/openairesponses"
	"github.com/agentloop/agentloop/pkg/provider/wire"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/pkg/tool/builtin"
	"github.com/agentloop/agentloop/pkg/tool/codemode"
	"github.com/agentloop/agentloop/pkg/tool/mcp"
)

// Estimator returns the estimator of a name; nil for the default one.
func Estimator(name string) budget.Estimator {
	switch name {
	case budget.Scan.Name():
		return budget.Scan
	case o200k.Name:
		return o200k.New()
	}
	return nil
}

// Engine makes the clients of model endpoints and tool servers.
type Engine struct {
	// Addresses says where endpoints and tool servers may be.
	Addresses mcp.AddressPolicy
	// Code runs the code that models write, for all runs of this process; nil where nothing is executed.
	Code   *codemode.Runner
	Logger *slog.Logger
	// TraceTools and TraceModels are what tool servers and providers are told of the trace that ctx is part of; nil for
	// nothing.
	TraceTools, TraceModels func(ctx context.Context) map[string]string

	// models are the clients of model endpoints, connections those to tool servers: all runs share them.
	sharing     sync.Once
	models      *clients
	connections *mcp.Connections
}

// Model returns the client of an endpoint, which the runs of this process share. It does no I/O.
func (e *Engine) Model(endpoint kube.Endpoint) (provider.Streamer, error) {
	e.sharing.Do(e.share)
	return e.models.of(endpoint)
}

func (e *Engine) share() {
	e.models, e.connections = newClients(e.client), mcp.NewConnections(e.Addresses)
}

// Describe asks an endpoint about models, over connections of its own.
func (e *Engine) Describe(ctx context.Context, endpoint kube.Endpoint, ids []string) ([]provider.ModelInfo, error) {
	client, err := e.client(endpoint)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Describe(ctx, ids)
}

// modelClient is what every adapter is.
type modelClient interface {
	provider.Streamer
	provider.Describer
	Close()
}

func (e *Engine) client(endpoint kube.Endpoint) (modelClient, error) {
	dialer := &net.Dialer{Timeout: 15 * time.Second, Control: e.Addresses.Control}
	cfg := wire.Config{
		BaseURL: endpoint.BaseURL, APIKey: endpoint.APIKey, Headers: endpoint.Headers, CABundle: endpoint.CABundle,
		IdleTimeout: endpoint.IdleTimeout, RequestTimeout: endpoint.RequestTimeout, DialContext: dialer.DialContext,
		Trace: e.TraceModels,
	}
	switch endpoint.Protocol {
	case provider.APIAnthropicMessages:
		return anthropic.New(anthropic.Config{Config: cfg})
	case provider.APIOpenAIChat:
		return openaichat.New(openaichat.Config{Config: cfg})
	case provider.APIOpenAIResponses:
		return openairesponses.New(openairesponses.Config{Config: cfg})
	}
	return nil, fmt.Errorf("protocol %q has no adapter", endpoint.Protocol)
}

// Tools makes the connections of a run to its tool servers. It does no I/O: Connect does.
func (e *Engine) Tools(run agent.Run, servers []kube.ToolServer) agent.Tools {
	configs := make([]mcp.ServerConfig, len(servers))
	var coded []string
	for i, s := range servers {
		configs[i] = mcp.ServerConfig{
			Name: s.Name, URL: s.URL, BearerToken: s.BearerToken, CABundle: s.CABundle, Allow: s.Allow, RequireApproval: s.RequireApproval, ApprovalSeconds: s.ApprovalSeconds,
			RetrySafe: s.RetrySafe, CallTimeout: s.CallTimeout, MaxResultBytes: s.MaxResultBytes,
		}
		if s.ContinueWithout {
			configs[i].OnUnavailable = mcp.Continue
		}
		if s.Codemode {
			coded = append(coded, s.Name)
		}
		for _, h := range s.Headers {
			configs[i].Headers = append(configs[i].Headers, mcp.Header{Name: h.Name, Value: h.Value, Secret: h.Secret})
		}
	}
	return &connector{engine: e, servers: configs, codemode: coded, logger: e.Logger.With("namespace", run.Namespace, "run", run.Name)}
}

// connector connects the tool servers of one run.
type connector struct {
	engine  *Engine
	servers []mcp.ServerConfig
	// codemode names the servers whose tools are called from code.
	codemode []string
	// logger names the run: its tool servers are its own, and two sessions may have servers of the same name.
	logger *slog.Logger
}

// Connect implements agent.Tools.
func (c *connector) Connect(ctx context.Context, want *session.ToolSet) (tool.Set, error) {
	c.engine.sharing.Do(c.engine.share)
	opts := mcp.Options{
		Addresses: c.engine.Addresses, Connections: c.engine.connections, Logger: c.logger, ReadOn: builtin.ReadResult, Trace: c.engine.TraceTools,
	}
	var begun []tool.Definition
	if want != nil {
		begun = append([]tool.Definition{}, want.Tools...) // not nil: nothing is discovered anew
		opts.Known = codemode.Known(begun)
	}
	set, problems, err := mcp.Connect(ctx, c.servers, opts)
	for _, p := range problems {
		c.logger.Warn("tool server problem", "server", p.Server, "reason", string(p.Reason), "tool", p.Tool, "problem", p.Message)
	}
	var unavailable *mcp.UnavailableError
	if errors.As(err, &unavailable) {
		return nil, &agent.Failure{Reason: agent.ReasonToolServer, Message: unavailable.Error() + "; check the session's toolServers, or set onUnavailable: Continue there", Class: "toolServer", Retryable: unavailable.Retryable(), Err: err}
	}
	if err != nil {
		return nil, err
	}
	return codemode.Wrap(set, c.codemode, begun, c.engine.Code), nil
}
