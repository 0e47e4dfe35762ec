package kube

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/provider"
)

// Endpoint is a model endpoint with its credential.
type Endpoint struct {
	Protocol       provider.API
	BaseURL        string
	APIKey         string
	Headers        map[string]string
	CABundle       []byte
	RequestTimeout time.Duration
	IdleTimeout    time.Duration
}

// ToolServer is an MCP server with its credential.
type ToolServer struct {
	Name, URL, BearerToken            string
	Headers                           []ToolHeader
	CABundle                          []byte
	Allow, RequireApproval, RetrySafe []string
	ApprovalSeconds                   int
	ContinueWithout                   bool
	// Codemode says that the tools are called from code and not declared one by one.
	Codemode       bool
	CallTimeout    time.Duration
	MaxResultBytes int
}

// ToolHeader is one header of a tool server. A secret value must not be shown again.
type ToolHeader struct {
	Name, Value string
	Secret      bool
}

// models sends each request to the provider of its model. That need not be the one that the session names by now: a run
// keeps the model that it was begun with.
type models struct {
	source    *Source
	namespace string

	mu      sync.Mutex
	clients map[string]provider.Streamer // by the provider's name
}

// Stream implements provider.Streamer.
func (m *models) Stream(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	client, err := m.client(ctx, req.Model)
	if err != nil {
		return provider.Response{}, &provider.Error{Class: provider.ClassTransient, Err: err}
	}
	return client.Stream(ctx, req, onDelta)
}

func (m *models) client(ctx context.Context, model provider.Model) (provider.Streamer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if client := m.clients[model.Provider]; client != nil {
		return client, nil
	}
	l := &loader{Source: m.source, ctx: ctx, namespace: m.namespace}
	target := &api.ModelProvider{}
	if err := l.get(model.Provider, target); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, notReady(api.SessionReasonProviderNotFound, "ModelProvider %s does not exist", model.Provider)
		}
		return nil, err
	}
	if err := m.open(l, target, model.API); err != nil {
		return nil, err
	}
	return m.clients[model.Provider], nil
}

// open makes the client of a provider ready.
func (m *models) open(l *loader, target *api.ModelProvider, protocol provider.API) error {
	endpoint, err := l.endpoint(target, protocol)
	if err != nil {
		return err
	}
	client, err := m.source.Model(endpoint)
	if err != nil {
		return notReady(api.SessionReasonProviderNotReady, "ModelProvider %s: %v", target.Name, err)
	}
	m.clients[target.Name] = client
	return nil
}

func (l *loader) endpoint(target *api.ModelProvider, protocol provider.API) (Endpoint, error) {
	out := Endpoint{
		Protocol: protocol, BaseURL: target.Spec.BaseURL, Headers: map[string]string{},
		RequestTimeout: time.Duration(target.Spec.RequestTimeoutSeconds) * time.Second,
		IdleTimeout:    time.Duration(target.Spec.IdleTimeoutSeconds) * time.Second,
	}
	var err error
	if ref := target.Spec.APIKeySecretRef; ref != nil {
		if out.APIKey, err = l.secretKey(*ref); err != nil {
			return out, err
		}
	}
	if ref := target.Spec.CABundle; ref != nil {
		if out.CABundle, err = l.sessionKey(*ref); err != nil {
			return out, err
		}
	}
	for _, header := range target.Spec.Headers {
		if out.Headers[header.Name], err = l.header(header); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (l *loader) header(header api.Header) (string, error) {
	if header.SecretKeyRef == nil {
		return header.Value, nil
	}
	return l.secretKey(*header.SecretKeyRef)
}

func (l *loader) toolServers(owner *api.AgentSession) ([]ToolServer, error) {
	var out []ToolServer
	for i := range owner.Spec.ToolServers {
		server := &owner.Spec.ToolServers[i]
		converted, err := l.toolServer(server)
		if err != nil {
			return nil, err
		}
		out = append(out, converted)
	}
	return out, nil
}

func (l *loader) toolServer(server *api.ToolServer) (ToolServer, error) {
	out := ToolServer{
		Name: server.Name, URL: server.URL, Allow: server.Allow, RequireApproval: server.RequireApproval, RetrySafe: server.RetrySafe,
		ApprovalSeconds: int(server.ApprovalTimeoutSeconds),
		ContinueWithout: server.OnUnavailable == api.UnavailableContinue, Codemode: server.Declaration == api.DeclarationCodemode,
		CallTimeout: time.Duration(server.CallTimeoutSeconds) * time.Second, MaxResultBytes: int(server.MaxResultBytes),
	}
	var err error
	if ref := server.BearerTokenSecretRef; ref != nil {
		if out.BearerToken, err = l.secretKey(*ref); err != nil {
			return out, err
		}
	}
	if ref := server.CABundle; ref != nil {
		if out.CABundle, err = l.sessionKey(*ref); err != nil {
			return out, err
		}
	}
	for _, header := range server.Headers {
		value, err := l.header(header)
		if err != nil {
			return out, err
		}
		out.Headers = append(out.Headers, ToolHeader{Name: header.Name, Value: value, Secret: header.SecretKeyRef != nil})
	}
	return out, nil
}
