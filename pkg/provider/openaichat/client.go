// Package openaichat speaks the OpenAI Chat Completions protocol, also as other servers speak it, for provider.Streamer.
//
// Guarantees, besides those of pkg/provider/wire: the response is put together by a reader of its own that copes with the
// ways in which servers number and name tool calls; usage counts stand once however often they are sent; reasoning text
// goes back under the field name it came in; nothing is read from the environment.
package openaichat

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

// Config is an endpoint that speaks the Chat Completions protocol. Its BaseURL ends before "/chat/completions".
type Config struct {
	wire.Config
	// LegacyMaxTokens declares the output cap as max_tokens instead of max_completion_tokens.
	LegacyMaxTokens bool
	// DropReasoning leaves reasoning text out of later requests, for servers that refuse it there.
	DropReasoning bool
}

// Client implements provider.Streamer. It is safe for concurrent use.
type Client struct {
	wire    *wire.Client
	sdk     sdk.Client
	options requestOptions
}

// requestOptions are the endpoint's peculiarities.
type requestOptions struct{ legacyMaxTokens, dropReasoning bool }

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
	return &Client{
		wire: w,
		// The SDK's constructor would take keys, addresses and headers from the environment.
		sdk:     sdk.Client{Options: options},
		options: requestOptions{legacyMaxTokens: cfg.LegacyMaxTokens, dropReasoning: cfg.DropReasoning},
	}, nil
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
	params, err := c.options.build(req, fields)
	if err != nil {
		return nil, err
	}
	options := []option.RequestOption{option.WithJSONSet("stream", true)}
	for _, f := range fields {
		options = append(options, option.WithJSONSet(param.EscapeSJSONKey(f.Name), f.Value))
	}
	var resp *http.Response
	err = c.sdk.Post(ctx, "chat/completions", params, &resp, options...)
	return resp, err
}
