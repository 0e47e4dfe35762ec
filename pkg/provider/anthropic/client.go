// Package anthropic speaks the Anthropic Messages protocol for provider.Streamer.
//
// Guarantees, besides those of pkg/provider/wire: signed and redacted thinking goes out exactly as it came in, in its
// place, or not at all; the results of a message's calls stand first in the message after it; no empty text and no empty
// tools list is sent; at most four cache breakpoints are set, never on an empty block; nothing is read from the
// environment and no spans are made.
package anthropic

import (
	"context"
	"net/http"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

const publicURL = "https://api.anthropic.com"

// Config is an endpoint that speaks the Messages protocol.
type Config struct {
	wire.Config
	// Version replaces the anthropic-version header that the SDK sends, for servers that know an older one only. Naming
	// it among the Headers does the same. Versions before 2026-10-21 take the key as x-api-key instead of a bearer token.
	Version string
}

// bearerSince is the first version of the protocol that takes API keys as bearer tokens.
const bearerSince = "2026-10-21"

// Client implements provider.Streamer. It is safe for concurrent use.
type Client struct {
	wire *wire.Client
	sdk  sdk.Client
}

// New returns a client for one endpoint. Errors are wire.ErrConfig.
func New(cfg Config) (*Client, error) {
	// The protocol's own path begins with v1: take a base URL with it as well as without.
	cfg.BaseURL = strings.TrimSuffix(strings.TrimRight(cfg.BaseURL, "/"), "/v1")
	w, err := wire.New(cfg.Config, publicURL)
	if err != nil {
		return nil, err
	}
	options := []option.RequestOption{
		option.WithoutEnvironmentDefaults(),
		option.WithoutOpenTelemetry(),
		option.WithHTTPClient(w.HTTP),
		option.WithBaseURL(w.BaseURL),
		option.WithMaxRetries(0),
	}
	version := cfg.Version
	for name, value := range cfg.Headers {
		if strings.EqualFold(name, "anthropic-version") {
			version = value
		}
	}
	if version != "" {
		options = append(options, option.WithHeader("anthropic-version", version))
	}
	switch {
	case cfg.APIKey == "":
	case version != "" && version < bearerSince:
		options = append(options, option.WithHeader("x-api-key", cfg.APIKey))
	default:
		options = append(options, option.WithAPIKey(cfg.APIKey))
	}
	for name, value := range cfg.Headers {
		options = append(options, option.WithHeader(name, value))
	}
	return &Client{wire: w, sdk: sdk.NewClient(options...)}, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.wire.Close() }

// Stream implements provider.Streamer.
func (c *Client) Stream(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	return c.wire.Stream(ctx, wire.Call{
		Request: req,
		OnDelta: onDelta,
		Send:    func(ctx context.Context) (*http.Response, error) { return c.send(ctx, req) },
		Decoder: func(a *wire.Assembly) wire.Decoder { return &decoder{assembly: a} },
	})
}

func (c *Client) send(ctx context.Context, req provider.Request) (*http.Response, error) {
	params, err := build(req)
	if err != nil {
		return nil, err
	}
	fields, err := sampling(req)
	if err != nil {
		return nil, err
	}
	options := []option.RequestOption{option.WithJSONSet("stream", true)}
	for _, f := range fields {
		options = append(options, option.WithJSONSet(param.EscapeSJSONKey(f.Name), f.Value))
	}
	var resp *http.Response
	err = c.sdk.Post(ctx, "v1/messages", params, &resp, options...)
	return resp, err
}
