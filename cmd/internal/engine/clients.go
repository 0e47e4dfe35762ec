package engine

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/agentloop/agentloop/pkg/kube"
)

// maxClients is how many endpoints keep their clients. A client without connections is some kilobytes.
const maxClients = 256

// clients shares the clients of model endpoints between runs, and with them the connections: a run that ends leaves its
// connection to the next one, and not to a timeout. Endpoints with another credential are others.
type clients struct {
	open func(kube.Endpoint) (modelClient, error)

	mu   sync.Mutex
	kept *simplelru.LRU[[sha256.Size]byte, modelClient]
}

func newClients(open func(kube.Endpoint) (modelClient, error)) *clients {
	c := &clients{open: open}
	// One that is let go of serves those who have it to the end: it closes idle connections only.
	c.kept, _ = simplelru.NewLRU(maxClients, func(_ [sha256.Size]byte, client modelClient) { client.Close() }) // the number is no error
	return c
}

// of returns the client of an endpoint.
func (c *clients) of(endpoint kube.Endpoint) (modelClient, error) {
	raw, err := json.Marshal(endpoint) //nolint:gosec // sorts the headers; what it says goes into a digest only
	if err != nil {
		return nil, fmt.Errorf("tell the endpoint from others: %w", err)
	}
	key := sha256.Sum256(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	if client, known := c.kept.Get(key); known {
		return client, nil
	}
	client, err := c.open(endpoint)
	if err != nil {
		return nil, err
	}
	c.kept.Add(key, client)
	return client, nil
}
