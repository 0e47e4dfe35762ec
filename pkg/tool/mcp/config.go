package mcp

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/agentloop/agentloop/pkg/tool"
)

// OnUnavailable says what Connect does when a server's tools cannot be had.
type OnUnavailable string

// The two policies for an unavailable server; "" is Fail.
const (
	Fail     OnUnavailable = "Fail"
	Continue OnUnavailable = "Continue"
)

// All in an allow, approval or retry list stands for every tool.
const All = "*"

// The bounds that hold when a configuration names none.
const (
	DefaultCallTimeout      = 60 * time.Second
	DefaultMaxResultBytes   = 64 << 10
	DefaultConnectTimeout   = 15 * time.Second
	DefaultMaxResponseBytes = 8 << 20
	DefaultMaxImageBytes    = 5 << 20
	DefaultMaxTools         = 256
)

// ServerConfig is one tool server of a session, its references resolved.
type ServerConfig struct {
	// Name is the server's name in the session; the tools' names begin with it.
	Name string
	// URL is the MCP endpoint, http or https, without user, password and fragment.
	URL string
	// BearerToken is sent as Authorization header; "" for none.
	BearerToken string
	// Headers are added to every request.
	Headers []Header
	// CABundle holds the PEM certificates that the server's certificate is checked against; empty means the system's.
	CABundle []byte
	// Allow, RequireApproval and RetrySafe list tools by their name on the server, or All. An empty Allow admits none.
	Allow           []string
	RequireApproval []string
	RetrySafe       []string
	// ApprovalSeconds is how long a call that needs approval waits for it; 0 for no limit.
	ApprovalSeconds int
	OnUnavailable   OnUnavailable
	// CallTimeout bounds one call, reconnecting included; 0 is DefaultCallTimeout.
	CallTimeout time.Duration
	// MaxResultBytes bounds the text of one result; 0 is DefaultMaxResultBytes.
	MaxResultBytes int
}

// Header is an HTTP header of the session's author. A Secret value is blanked wherever a server sends it back.
type Header struct {
	Name, Value string
	Secret      bool
}

// String names the server only, so that no format verb prints a credential.
func (c ServerConfig) String() string { return "tool server " + c.Name }

// GoString is String.
func (c ServerConfig) GoString() string { return c.String() }

// LogValue implements slog.LogValuer with the server's name.
func (c ServerConfig) LogValue() slog.Value { return slog.StringValue(c.Name) }

// Options hold what all servers of a set share. The zero value is usable.
type Options struct {
	// Addresses says which addresses may be dialled. The zero value admits public addresses only.
	Addresses AddressPolicy
	// Connections are those that the set shares with others, and their policy is then the one that holds; nil gives the set
	// its own.
	Connections *Connections
	// Known, when not nil, is the tool set to use: nothing is discovered and servers are connected to at their first
	// call. A run that another worker takes over keeps its tools in this way.
	Known []tool.Definition
	// ConnectTimeout bounds connecting to and listing one server; 0 is DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// MaxResponseBytes bounds what is read of one HTTP answer; 0 is DefaultMaxResponseBytes. A server whose
	// MaxResultBytes is more than half of it may answer with twice its MaxResultBytes.
	MaxResponseBytes int64
	// MaxImageBytes bounds the decoded images of one result together; 0 is DefaultMaxImageBytes.
	MaxImageBytes int
	// MaxTools bounds the admitted tools of one server; 0 is DefaultMaxTools.
	MaxTools int
	// ReadOn is the name of the tool by which a model reads the rest of a cut result; "" when there is none. A run that
	// was begun without it (see Known) is not told of it.
	ReadOn string
	// Trace returns the fields that tell a server which trace ctx is part of, by their names in W3C Trace Context; nil for
	// none. They go into the _meta of calls and into the headers of requests.
	Trace func(ctx context.Context) map[string]string
	// Version is the client's version as servers see it.
	Version string
	// Logger gets connection changes, never contents; nil discards them.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	if o.MaxResponseBytes <= 0 {
		o.MaxResponseBytes = DefaultMaxResponseBytes
	}
	if o.MaxImageBytes <= 0 {
		o.MaxImageBytes = DefaultMaxImageBytes
	}
	if o.MaxTools <= 0 {
		o.MaxTools = DefaultMaxTools
	}
	if o.Version == "" {
		o.Version = "devel"
	}
	if o.Known != nil && !slices.ContainsFunc(o.Known, func(d tool.Definition) bool { return d.Server == "" && d.Name == o.ReadOn }) {
		o.ReadOn = ""
	}
	if o.Trace == nil {
		o.Trace = func(context.Context) map[string]string { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (c ServerConfig) withDefaults() ServerConfig {
	if c.CallTimeout <= 0 {
		c.CallTimeout = DefaultCallTimeout
	}
	if c.MaxResultBytes <= 0 {
		c.MaxResultBytes = DefaultMaxResultBytes
	}
	if c.OnUnavailable == "" {
		c.OnUnavailable = Fail
	}
	return c
}

// maxResponse is the bound on one HTTP answer of the server.
func (c ServerConfig) maxResponse(opts Options) int64 {
	return max(opts.MaxResponseBytes, 2*int64(c.MaxResultBytes))
}

// check refuses what could never work. Its errors name the field and hold no value of a credential.
func (c ServerConfig) check() error {
	if c.Name == "" {
		return errors.New("the name is empty")
	}
	if err := checkURL(c.URL); err != nil {
		return err
	}
	if strings.ContainsFunc(c.BearerToken, notHeaderValue) {
		return errors.New("the bearer token has characters that no HTTP header may hold, for example a line break at its end")
	}
	for _, h := range c.Headers {
		if err := c.checkHeader(h); err != nil {
			return err
		}
	}
	if len(c.CABundle) > 0 && !x509.NewCertPool().AppendCertsFromPEM(c.CABundle) {
		return errors.New("caBundle holds no PEM certificate")
	}
	return nil
}

func checkURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("url cannot be parsed")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("url must begin with http:// or https://")
	case u.Hostname() == "":
		return errors.New("url has no host")
	case u.User != nil:
		return errors.New("url holds a user or password: use bearerTokenSecretRef or headers")
	case u.Fragment != "":
		return errors.New("url holds a fragment")
	}
	return nil
}

// reservedHeaders are set by HTTP or by the protocol.
var reservedHeaders = map[string]bool{
	"accept": true, "connection": true, "content-length": true, "content-type": true, "host": true, "last-event-id": true,
	"te": true, "trailer": true, "transfer-encoding": true, "upgrade": true, "proxy-connection": true, "keep-alive": true,
}

func (c ServerConfig) checkHeader(h Header) error {
	name := strings.ToLower(h.Name)
	switch {
	case name == "" || strings.ContainsFunc(name, notToken):
		return fmt.Errorf("header %q has no valid name", h.Name)
	case reservedHeaders[name] || strings.HasPrefix(name, "mcp-"):
		return fmt.Errorf("header %q belongs to the protocol and cannot be set", h.Name)
	case name == "authorization" && c.BearerToken != "":
		return errors.New("header Authorization and a bearer token exclude each other")
	case strings.ContainsFunc(h.Value, notHeaderValue):
		return fmt.Errorf("header %q has a value with characters that no HTTP header may hold", h.Name)
	}
	return nil
}

func notToken(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func notHeaderValue(r rune) bool { return r != '\t' && r < ' ' || r == 0x7f }
