package mcp

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// maxBundles is how many sets of certificates have connections that are kept.
	maxBundles = 64
	// idlePerServer is how many connections to a server are kept that nobody uses, and idleTime for how long: a run that
	// waits for its model holds none, whatever number of runs there are.
	idlePerServer = 16
	idleTime      = 50 * time.Second
	// pingAfter is how long an HTTP/2 connection may be silent before it is asked for a sign of life, and for how long it
	// is waited for: many requests share one.
	pingAfter = 15 * time.Second
)

// Connections are the network connections to tool servers. The sets of many runs may share them: requests are told apart by
// what is in them, and only servers that are checked against other certificates need other connections. Safe for concurrent
// use.
type Connections struct {
	addresses AddressPolicy

	mu       sync.Mutex
	byBundle *simplelru.LRU[[sha256.Size]byte, *http.Transport]
}

// NewConnections makes connections to such addresses as the policy admits.
func NewConnections(addresses AddressPolicy) *Connections {
	c := &Connections{addresses: addresses}
	// The number is no error. What is let go of serves those who have it.
	c.byBundle, _ = simplelru.NewLRU(maxBundles, func(_ [sha256.Size]byte, t *http.Transport) { t.CloseIdleConnections() })
	return c
}

// Close closes the connections that nobody uses.
func (c *Connections) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byBundle.Purge()
}

// to returns the connections to servers whose certificates are checked against the bundle; empty for the system's.
func (c *Connections) to(bundle []byte) http.RoundTripper {
	key := sha256.Sum256(bundle)
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.byBundle.Get(key); ok {
		return known
	}
	made := c.transport(bundle)
	c.byBundle.Add(key, made)
	return made
}

// transport does not use proxies of the environment: a proxy would resolve names and so escape the address policy.
func (c *Connections) transport(bundle []byte) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Control: c.addresses.Control}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: rootCAs(bundle)},
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
		DisableCompression:     true,
		MaxIdleConnsPerHost:    idlePerServer,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// rootCAs is nil, the system's certificates, for an empty bundle.
func rootCAs(bundle []byte) *x509.CertPool {
	if len(bundle) == 0 {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle) // checked by ServerConfig.check
	return pool
}
