package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrConfig is returned when an endpoint's configuration cannot be used. Its text says what to change and holds no
// secret.
var ErrConfig = errors.New("invalid model endpoint")

// Config describes one endpoint of a provider.
type Config struct {
	// BaseURL is the address up to the protocol's own path: "https://api.openai.com/v1". Empty means the protocol's
	// public address.
	BaseURL string
	// APIKey is sent the way the protocol sends keys; empty sends none.
	APIKey string
	// Headers are set on every request, after everything else.
	Headers map[string]string
	// CABundle holds PEM certificates to trust instead of the system's; empty trusts the system's.
	CABundle []byte
	// Proxy is an http, https or socks5 URL; empty connects directly. The environment is never read.
	Proxy string
	// IdleTimeout ends a call when no byte moved in either direction for that long; 0 means DefaultIdleTimeout, a
	// negative value no limit.
	IdleTimeout time.Duration
	// RequestTimeout ends a call that takes longer altogether; 0 means no limit besides the context's.
	RequestTimeout time.Duration
	// MaxResponseBytes bounds one response; 0 means DefaultMaxResponseBytes.
	MaxResponseBytes int64
	// DialContext replaces the dialer, for example by one that refuses internal addresses.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Trace returns headers that tell the provider which trace ctx is part of; nil for none.
	Trace func(ctx context.Context) map[string]string
	// Transport replaces the whole network transport; CABundle, Proxy and DialContext are then not used.
	Transport http.RoundTripper
	// Now is the clock of delta times and Retry-After dates; nil means time.Now.
	Now func() time.Time
}

// Defaults of Config.
const (
	DefaultIdleTimeout      = 5 * time.Minute
	DefaultMaxResponseBytes = 64 << 20
)

const (
	connectTimeout = 15 * time.Second
	idlePerHost    = 64
	// idleConnTimeout is below the minute after which common load balancers drop a connection that nobody uses.
	idleConnTimeout = 50 * time.Second
	// pingAfter is how long an HTTP/2 connection may be silent before it is asked for a sign of life, and for how long it
	// is waited for: many requests share one, and all would wait for one that a router has forgotten.
	pingAfter = 15 * time.Second
)

// Client sends the requests of one endpoint. It is safe for concurrent use.
type Client struct {
	// HTTP is the client to hand to an SDK.
	HTTP *http.Client
	// BaseURL is the endpoint's address without a trailing slash.
	BaseURL string

	now  func() time.Time
	base http.RoundTripper
}

// New checks cfg and returns a client for it. publicURL is the protocol's own address.
func New(cfg Config, publicURL string) (*Client, error) {
	base, err := checkBaseURL(cfg.BaseURL, publicURL)
	if err != nil {
		return nil, err
	}
	if err := checkHeaders(cfg); err != nil {
		return nil, err
	}
	network := cfg.Transport
	if network == nil {
		if network, err = newNetwork(cfg); err != nil {
			return nil, err
		}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = DefaultIdleTimeout
	}
	if cfg.MaxResponseBytes <= 0 {
		cfg.MaxResponseBytes = DefaultMaxResponseBytes
	}
	t := &transport{network: network, idle: cfg.IdleTimeout, total: cfg.RequestTimeout, maxBytes: cfg.MaxResponseBytes, trace: cfg.Trace}
	return &Client{
		HTTP:    &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		BaseURL: base, now: cfg.Now, base: network,
	}, nil
}

// Close lets go of idle connections. Calls under way are not touched.
func (c *Client) Close() {
	if closer, ok := c.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

func checkBaseURL(given, public string) (string, error) {
	if given == "" {
		given = public
	}
	u, err := url.Parse(given)
	if err != nil {
		return "", fmt.Errorf("%w: the base URL is no URL", ErrConfig) // the parse error would repeat it whole
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%w: the base URL must begin with http:// or https://", ErrConfig)
	case u.Hostname() == "":
		return "", fmt.Errorf("%w: the base URL has no host", ErrConfig)
	case u.User != nil:
		return "", fmt.Errorf("%w: the base URL must not hold credentials; use a key or a header", ErrConfig)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("%w: the base URL must have no query and no fragment", ErrConfig)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// ownHeaders are computed from the request itself.
var ownHeaders = map[string]bool{"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true,
	"Content-Type": true, "Content-Encoding": true, "Accept-Encoding": true, "Trailer": true, "Upgrade": true}

func checkHeaders(cfg Config) error {
	if !validValue(cfg.APIKey) {
		return fmt.Errorf("%w: the API key has a line break or another control character", ErrConfig)
	}
	for name, value := range cfg.Headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !validName(name):
			return fmt.Errorf("%w: %q is no header name", ErrConfig, name)
		case ownHeaders[canonical]:
			return fmt.Errorf("%w: the header %s cannot be set", ErrConfig, canonical)
		case !validValue(value):
			return fmt.Errorf("%w: the value of header %s has a line break or another control character", ErrConfig, canonical)
		}
	}
	return nil
}

func validName(name string) bool {
	for _, r := range name {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) {
			return false
		}
	}
	return name != ""
}

func validValue(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

func newNetwork(cfg Config) (http.RoundTripper, error) {
	t := &http.Transport{
		DialContext:         cfg.DialContext,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: connectTimeout,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: idlePerHost,
		IdleConnTimeout:     idleConnTimeout,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
		// Compressed event streams arrive in lumps: do not ask for them.
		DisableCompression: true,
	}
	if t.DialContext == nil {
		t.DialContext = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	if len(cfg.CABundle) > 0 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(cfg.CABundle) {
			return nil, fmt.Errorf("%w: the CA bundle holds no PEM certificate", ErrConfig)
		}
		t.TLSClientConfig.RootCAs = pool
	}
	if cfg.Proxy != "" {
		u, err := url.Parse(cfg.Proxy)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" {
			return nil, fmt.Errorf("%w: the proxy must be an http, https or socks5 URL", ErrConfig)
		}
		t.Proxy = http.ProxyURL(u)
	}
	return t, nil
}
