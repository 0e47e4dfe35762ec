package anthropic

import (
	"context"
	"net/http"

	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

// Describe implements provider.Describer.
func (c *Client) Describe(ctx context.Context, ids []string) ([]provider.ModelInfo, error) {
	return c.wire.Describe(ctx, wire.Listing{API: provider.APIAnthropicMessages, Models: "v1/models", Query: "?limit=1000", Get: c.get}, ids)
}

func (c *Client) get(ctx context.Context, path string) (*http.Response, error) {
	var resp *http.Response
	err := c.sdk.Get(ctx, path, nil, &resp)
	return resp, err
}
