// Package openairesponses speaks the OpenAI Responses protocol for provider.Streamer.
//
// Guarantees, besides those of pkg/provider/wire: the provider keeps no state (store is false, no earlier response is
// named, nothing is truncated for us); reasoning is replayed by its encrypted content, as it came, and only together with
// the item that it led to; nothing is read from the environment.
package openairesponses

import (
	"context"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"

	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

const publicURL = "https://api.openai.com/v1"

// Config is an endpoint that speaks the Responses protocol. Its BaseURL ends before "/responses".
type Config struct {
	wire.Config
	// NoReasoningSummary asks for no summaries of the reasoning: some accounts may not have them.
	NoReasoningSummary bool
}

// Client implements provider.Streamer. It is safe for concurrent use.
type Client struct {
	wire      *wire.Client
	sdk       sdk.Client
	noSummary bool
}

// New returns a client for one endpoint. Errors are wire.ErrConfig.
func New(cfg Config) (*Client, error) {
	w, err := wire.New(cfg.Config, publicURL)
	if err != nil {
		return nil, err
	}
	options := []option.RequestOption{
		option.WithHTTPClient(w.HTTP),
		option.WithBaseURL(w.BaseURL),
		option.WithMaxRetries(0),
	}
	if cfg.APIKey != "" {
		options = append(options, option.WithAPIKey(cfg.APIKey))
	}
	for name, value := range cfg.Headers {
		options = append(options, option.WithHeader(name, value))
	}
	// The SDK's constructor would take keys, addresses and headers from the environment.
	return &Client{wire: w, sdk: sdk.Client{Options: options}, noSummary: cfg.NoReasoningSummary}, nil
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
	fields, err := req.MergedSampling()
	if err != nil {
		return nil, err
	}
	params, err := build(req, fields, !c.noSummary)
	if err != nil {
		return nil, err
	}
	options := []option.RequestOption{option.WithJSONSet("stream", true)}
	for _, f := range fields {
		options = append(options, option.WithJSONSet(param.EscapeSJSONKey(f.Name), f.Value))
	}
	var resp *http.Response
	err = c.sdk.Post(ctx, "responses", params, &resp, options...)
	return resp, err
}
