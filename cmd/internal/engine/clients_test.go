package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/provider"
)

// counted is a client that tells of its end.
type counted struct {
	provider.Streamer
	closed *int
}

func (c *counted) Describe(context.Context, []string) ([]provider.ModelInfo, error) { return nil, nil }
func (c *counted) Close()                                                           { *c.closed++ }

func TestRunsShareTheClientsOfEndpoints(t *testing.T) {
	opened, closed := 0, 0
	c := newClients(func(kube.Endpoint) (modelClient, error) {
		opened++
		return &counted{closed: &closed}, nil
	})
	base := func() kube.Endpoint {
		return kube.Endpoint{
			Protocol: provider.APIAnthropicMessages, BaseURL: "https://models.example.com", APIKey: "k1", CABundle: []byte("pem"),
			Headers: map[string]string{"A": "1", "B": "2"}, RequestTimeout: time.Minute, IdleTimeout: time.Second,
		}
	}
	get := func(change func(*kube.Endpoint)) modelClient {
		t.Helper()
		endpoint := base()
		change(&endpoint)
		client, err := c.of(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	first := get(func(*kube.Endpoint) {})
	if get(func(*kube.Endpoint) {}) != first || opened != 1 {
		t.Errorf("%d clients for one endpoint", opened)
	}
	others := map[string]func(*kube.Endpoint){
		"protocol":        func(e *kube.Endpoint) { e.Protocol = provider.APIOpenAIChat },
		"address":         func(e *kube.Endpoint) { e.BaseURL += "/v1" },
		"credential":      func(e *kube.Endpoint) { e.APIKey = "k2" },
		"header":          func(e *kube.Endpoint) { e.Headers["B"] = "3" },
		"certificates":    func(e *kube.Endpoint) { e.CABundle = nil },
		"request timeout": func(e *kube.Endpoint) { e.RequestTimeout++ },
		"idle timeout":    func(e *kube.Endpoint) { e.IdleTimeout++ },
	}
	for what, change := range others {
		if get(change) == first {
			t.Errorf("an endpoint with another %s has the same client", what)
		}
	}
	for n := range maxClients {
		get(func(e *kube.Endpoint) { e.BaseURL += fmt.Sprint(n) })
	}
	if want := 1 + len(others); closed != want {
		t.Errorf("%d clients were closed, want the %d that were used least recently", closed, want)
	}
	if get(func(*kube.Endpoint) {}) == first {
		t.Error("a client that was let go of is handed out again")
	}
}

func TestEndpointsThatCannotBeUsedAreTriedAgain(t *testing.T) {
	unusable := errors.New("no such scheme")
	c := newClients(func(kube.Endpoint) (modelClient, error) { return nil, unusable })
	for range 2 {
		if client, err := c.of(kube.Endpoint{}); client != nil || !errors.Is(err, unusable) {
			t.Errorf("%v, %v", client, err)
		}
	}
}
