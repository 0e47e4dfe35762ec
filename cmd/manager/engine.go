package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	_ "time/tzdata" // the zones that the tool "now" knows; images without a system have none

	"github.com/agentloop/agentloop/pkg/agent"
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

// engine makes the clients of model endpoints and tool servers.
type engine struct {
	parts *parts
	// code runs the code that models write, for all runs of this process.
	code *codemode.Runner
}

func (e *engine) addresses() mcp.AddressPolicy {
	return mcp.AddressPolicy{AllowLoopback: e.parts.allowLoopback, AllowPrivate: e.parts.allowPrivate, Allowed: e.parts.allowAddresses}
}

func (e *engine) model(endpoint kube.Endpoint) (provider.Streamer, error) { return e.client(endpoint) }

// describe asks an endpoint about models, over connections of its own.
func (e *engine) describe(ctx context.Context, endpoint kube.Endpoint, ids []string) ([]provider.ModelInfo, error) {
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

func (e *engine) client(endpoint kube.Endpoint) (modelClient, error) {
	dialer := &net.Dialer{Timeout: 15 * time.Second, Control: e.addresses().Control}
	cfg := wire.Config{
		BaseURL: endpoint.BaseURL, APIKey: endpoint.APIKey, Headers: endpoint.Headers, CABundle: endpoint.CABundle,
		IdleTimeout: endpoint.IdleTimeout, RequestTimeout: endpoint.RequestTimeout, DialContext: dialer.DialContext,
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

func (e *engine) tools(run agent.Run, servers []kube.ToolServer) agent.Tools {
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
	return &connector{engine: e, servers: configs, codemode: coded, logger: e.parts.logger.With("namespace", run.Namespace, "run", run.Name)}
}

// connector connects the tool servers of one run.
type connector struct {
	engine  *engine
	servers []mcp.ServerConfig
	// codemode names the servers whose tools are called from code.
	codemode []string
	// logger names the run: its tool servers are its own, and two sessions may have servers of the same name.
	logger *slog.Logger
}

// Connect implements agent.Tools.
func (c *connector) Connect(ctx context.Context, want *session.ToolSet) (tool.Set, error) {
	opts := mcp.Options{Addresses: c.engine.addresses(), Logger: c.logger, ReadOn: builtin.ReadResult}
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
	return codemode.Wrap(set, c.codemode, begun, c.engine.code), nil
}

// chaosList is the --chaos that ends nothing and writes each point to the log.
const chaosList = "list"

// chaosPoint makes the hook that ends the process at a named point, as a kill would.
func chaosPoint(spec string, logger *slog.Logger) (func(string), error) {
	switch spec {
	case "":
		return nil, nil //nolint:nilnil // no hook
	case chaosList:
		return func(reached string) { logger.Info("chaos point", "point", reached) }, nil
	}
	point, times, found := strings.Cut(spec, "=")
	n := 1
	if found {
		var err error
		if n, err = strconv.Atoi(times); err != nil || n < 1 {
			return nil, fmt.Errorf("--chaos=%s: use POINT or POINT=N with N from 1, or list", spec)
		}
	}
	var mu sync.Mutex
	return func(reached string) {
		if reached != point {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if n--; n == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // nothing is left to report a failure to
			select {}
		}
	}, nil
}
