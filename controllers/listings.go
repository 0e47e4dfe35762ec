package controllers

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/provider"
)

// Listings asks providers in the background what they tell about their models. A provider is asked when somebody wants
// to know and it was not asked yet, when its spec or credential has changed, and again after a while. Reconciling never
// waits for an answer.
type Listings struct {
	// Ask asks a provider about its declared models; see provider.Describer.
	Ask    func(ctx context.Context, target *api.ModelProvider) ([]provider.ModelInfo, error)
	Logger *slog.Logger
	// Notify is called after a provider was asked.
	Notify func(key client.ObjectKey)
	Now    func() time.Time
	// Interval is how long an answer holds, and the longest wait after failures.
	Interval time.Duration

	mu      sync.Mutex
	entries map[client.ObjectKey]*listing
	wake    chan client.ObjectKey
}

// Listing is what is known of what a provider tells.
type Listing struct {
	// Known is false until the provider was asked.
	Known bool
	// Models is the latest answer. A failure after it does not make it wrong.
	Models []provider.ModelInfo
	// Err is why there is no answer; nil when there is one.
	Err error
}

// listingKey is what an answer holds for.
type listingKey struct {
	uid        types.UID
	generation int64
	versions   string
}

type listing struct {
	key    listingKey
	target *api.ModelProvider
	result Listing
	// asking says that the question waits or is under way, due when it may be put again, failures how often in a row it
	// failed.
	asking   bool
	due      time.Time
	failures int
}

const (
	// listingReaders is how many providers are asked side by side, so that a silent one does not hold up all others.
	listingReaders = 4
	// listingTimeout bounds the questions to one provider.
	listingTimeout = 20 * time.Second
	// listingRetry is the wait after a first failure. It doubles with each.
	listingRetry = time.Minute
	// maxListings is how many questions wait at a time; further ones are put when their provider is looked at again.
	maxListings = 4096
)

// Start implements manager.Runnable. It returns when ctx ends.
func (l *Listings) Start(ctx context.Context) error {
	l.mu.Lock()
	l.init()
	wake := l.wake
	l.mu.Unlock()
	var readers sync.WaitGroup
	defer readers.Wait()
	for range listingReaders {
		readers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case key := <-wake:
					l.ask(ctx, key)
				}
			}
		})
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only the leader reports.
func (l *Listings) NeedLeaderElection() bool { return true }

func (l *Listings) init() {
	if l.entries == nil {
		l.entries, l.wake = map[client.ObjectKey]*listing{}, make(chan client.ObjectKey, maxListings)
	}
}

// Get returns what a provider tells, and has it asked when that is due. It never waits. target is not changed; versions
// tells one state of its Secrets and ConfigMaps from another. The result is not to be changed.
func (l *Listings) Get(target *api.ModelProvider, versions string) Listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.init()
	name := client.ObjectKeyFromObject(target)
	key := listingKey{uid: target.UID, generation: target.Generation, versions: versions}
	entry := l.entries[name]
	if entry == nil || entry.key != key {
		entry = &listing{key: key, target: target.DeepCopy()}
		l.entries[name] = entry
	}
	if !entry.asking && !l.Now().Before(entry.due) {
		select {
		case l.wake <- name:
			entry.asking = true
		default: // the provider is looked at again
		}
	}
	return entry.result
}

// Forget drops what is known of a provider. A nil Listings knows none.
func (l *Listings) Forget(name client.ObjectKey) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, name)
}

// ask puts the question to a provider, unless nobody wants an answer any more or another reader has put it.
func (l *Listings) ask(ctx context.Context, name client.ObjectKey) {
	l.mu.Lock()
	entry := l.entries[name]
	if entry == nil || !entry.asking || entry.target == nil {
		l.mu.Unlock()
		return
	}
	target := entry.target
	entry.target = nil // taken
	l.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, listingTimeout)
	models, err := l.Ask(bounded, target)
	cancel()
	if ctx.Err() != nil {
		return
	}
	if err != nil && !errors.Is(err, provider.ErrNoListing) {
		l.Logger.Warn("model listing not read", "namespace", name.Namespace, "provider", name.Name, "error", err)
	}
	l.mu.Lock()
	entry.target, entry.asking = target, false
	l.keep(entry, models, err)
	l.mu.Unlock()
	l.Notify(name)
}

// keep stores an answer or a failure, and says when the question may be put again. Questions are spread, so that
// providers that were seen together at the start are not asked together for ever.
func (l *Listings) keep(entry *listing, models []provider.ModelInfo, err error) {
	rest := l.Interval
	if err == nil {
		entry.failures, entry.result = 0, Listing{Known: true, Models: models}
	} else {
		rest = min(rest, listingRetry<<min(entry.failures, 10))
		entry.failures++
		if entry.result.Models == nil {
			entry.result = Listing{Known: true, Err: err}
		}
	}
	entry.due = l.Now().Add(rest + rand.N(rest/10+1))
}
