package kube

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/provider"
)

// How long the limits of a provider are taken for what they are before they are read again, how long that may take, and
// when limits that nobody asks for are forgotten.
const (
	quotaAge     = 5 * time.Second
	quotaTimeout = 3 * time.Second
	quotaForget  = time.Hour
)

// quotas are the limits of providers as they were read last, for all runs of this process.
type quotas struct {
	mu    sync.Mutex
	known map[client.ObjectKey]knownQuota
}

type knownQuota struct {
	quota agent.Quota
	read  time.Time
}

// QuotaOf is what a provider allows all its users together.
func QuotaOf(target *api.ModelProvider) agent.Quota {
	quota := agent.Quota{Namespace: target.Namespace, Provider: string(target.UID), Generation: target.Generation}
	if l := target.Spec.Limits; l != nil {
		quota.Concurrent, quota.Requests, quota.Tokens = int64(l.MaxConcurrentRequests), int64(l.RequestsPerMinute), l.InputTokensPerMinute
	}
	return quota
}

// keep remembers a provider's limits.
func (q *quotas) keep(key client.ObjectKey, quota agent.Quota, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known == nil {
		q.known = map[client.ObjectKey]knownQuota{}
	}
	maps.DeleteFunc(q.known, func(_ client.ObjectKey, k knownQuota) bool { return now.Sub(k.read) > quotaForget })
	q.known[key] = knownQuota{quota, now}
}

// get returns what is known. When it is to be read again it says so to one caller: the others use it meanwhile.
func (q *quotas) get(key client.ObjectKey, now time.Time) (quota agent.Quota, known, current bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k, known := q.known[key]
	current = known && now.Sub(k.read) < quotaAge
	if known && !current {
		q.known[key] = knownQuota{k.quota, now}
	}
	return k.quota, known, current
}

// quota tells what the provider of a model allows: as it is, or was seconds ago; as it was last when the API server does
// not answer. A provider that is gone limits nothing, for nothing can be sent to it.
func (s *Source) quota(ctx context.Context, namespace string, model provider.Model) (agent.Quota, error) {
	key := client.ObjectKey{Namespace: namespace, Name: model.Provider}
	quota, known, current := s.quotas.get(key, s.Now())
	if current {
		return quota, nil
	}
	ctx, cancel := context.WithTimeout(ctx, quotaTimeout)
	defer cancel()
	target := &api.ModelProvider{}
	err := s.Reader.Get(ctx, key, target)
	switch {
	case err == nil:
		quota = QuotaOf(target)
	case apierrors.IsNotFound(err):
		quota = agent.Quota{}
	case known:
		return quota, nil
	default:
		return agent.Quota{}, fmt.Errorf("read the limits of %s: %w", model.Provider, err)
	}
	s.quotas.keep(key, quota, s.Now())
	return quota, nil
}
