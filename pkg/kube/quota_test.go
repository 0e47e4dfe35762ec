package kube

import (
	"context"
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/provider"
)

// TestQuota tells a provider's limits without a question for each request, takes a change up within seconds, and goes on
// with what it knows while the API server is away.
func TestQuota(t *testing.T) {
	c := newCluster()
	c.now = created
	c.provider.UID, c.provider.Generation = "provider-uid", 3
	c.provider.Spec.Limits = &api.ProviderLimits{MaxConcurrentRequests: 2, RequestsPerMinute: 30, InputTokensPerMinute: 4000}
	source := c.source()
	reads := 0
	source.Reader = counting{source.Reader, &reads}
	ask := func(name string) (agent.Quota, error) {
		return source.quota(context.Background(), "ns", provider.Model{Provider: name})
	}
	want := agent.Quota{Namespace: "ns", Provider: "provider-uid", Generation: 3, Concurrent: 2, Requests: 30, Tokens: 4000}
	for range 3 {
		if got, err := ask("models"); err != nil || got != want {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	}
	if reads != 1 {
		t.Errorf("read %d times, want once", reads)
	}
	changed := c.provider.DeepCopy()
	if err := source.Reader.Get(context.Background(), client.ObjectKeyFromObject(changed), changed); err != nil {
		t.Fatal(err)
	}
	changed.Generation, changed.Spec.Limits = 4, nil
	if err := source.Reader.(counting).Reader.(client.Client).Update(context.Background(), changed); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(quotaAge)
	if got, err := ask("models"); err != nil || !got.Unlimited() || got.Provider != want.Provider {
		t.Errorf("limits that were removed: %+v, %v", got, err)
	}
	c.now, c.getErr = c.now.Add(time.Minute), errors.New("away")
	if got, err := ask("models"); err != nil || got.Provider != want.Provider {
		t.Errorf("while the API server is away: %+v, %v", got, err)
	}
	if _, err := ask("others"); err == nil {
		t.Error("limits that are not known are none")
	}
	c.getErr = nil
	if got, err := ask("gone"); err != nil || !got.Unlimited() {
		t.Errorf("a provider that is gone: %+v, %v", got, err)
	}
	job, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := job.Deps.Quota(context.Background(), provider.Model{Provider: "models"}); err != nil || got.Provider != "provider-uid" {
		t.Errorf("of a job: %+v, %v", got, err)
	}
}

// counting counts what is read.
type counting struct {
	client.Reader
	reads *int
}

func (c counting) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	*c.reads++
	return c.Reader.Get(ctx, key, into, opts...)
}
