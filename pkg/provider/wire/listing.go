package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/agentloop/agentloop/pkg/provider"
)

// maxDocument bounds an answer that is one JSON document. The listings of large gateways have about a megabyte.
const maxDocument = 16 << 20

// Listing is what Describe needs of an adapter.
type Listing struct {
	API provider.API
	// Models is the path of the listing below the base URL, and below which each model has its own; Query is what the
	// request for the whole listing adds to it.
	Models, Query string
	// Get sends one request without a body through the Client's HTTP client.
	Get func(ctx context.Context, path string) (*http.Response, error)
}

// errContent is returned when a request that must be empty has a body.
var errContent = errors.New("a request for a listing has no body")

// Describe implements provider.Describer's contract for an adapter. It asks for the whole listing, and then by name for
// what is not in it: providers resolve names there that they do not list.
func (c *Client) Describe(ctx context.Context, in Listing, ids []string) ([]provider.ModelInfo, error) {
	body, err := c.ask(ctx, in, in.Models+in.Query)
	if err != nil {
		return nil, unlisted(err)
	}
	listed, err := provider.ListedModels(body)
	if err != nil {
		return nil, &provider.Error{Class: provider.ClassInvalidRequest, Dispatched: true, HTTPStatus: http.StatusOK, Code: "no_listing", Err: err}
	}
	out := make([]provider.ModelInfo, len(ids))
	for i, id := range ids {
		entry := []byte(listed[id])
		if entry == nil {
			if entry, err = c.byName(ctx, in, id); err != nil {
				return nil, err
			}
		}
		out[i] = provider.ModelInfo{ID: id, Listed: entry != nil}
		out[i].ContextWindow, out[i].MaxTokens = provider.ListedLimits(in.API, entry)
	}
	return out, nil
}

// byName asks for one model; nil when the provider knows none of that name, or cannot be asked so.
func (c *Client) byName(ctx context.Context, in Listing, id string) ([]byte, error) {
	entry, err := c.ask(ctx, in, in.Models+"/"+url.PathEscape(id))
	var failure *provider.Error
	switch {
	case err == nil && provider.ListedID(entry) != "":
		return entry, nil
	case err == nil, errors.Is(unlisted(err), provider.ErrNoListing):
		return nil, nil
	case errors.As(err, &failure) && failure.HTTPStatus >= 400 && failure.HTTPStatus < 500 && failure.Class == provider.ClassInvalidRequest:
		return nil, nil // the listing was there: it is the name that is not taken
	}
	return nil, err
}

// unlisted adds ErrNoListing to a failure that says that there is no listing.
func unlisted(err error) error {
	var failure *provider.Error
	if !errors.As(err, &failure) {
		return err
	}
	switch {
	case failure.Code == "html_response", failure.Code == "no_json":
	case failure.HTTPStatus == http.StatusNotFound, failure.HTTPStatus == http.StatusMethodNotAllowed, failure.HTTPStatus == http.StatusNotImplemented:
	default:
		return err
	}
	failure.Err = fmt.Errorf("%w: %w", provider.ErrNoListing, failure.Err)
	return failure
}

// ask sends one request without a body and returns the JSON document that answers it.
func (c *Client) ask(ctx context.Context, in Listing, path string) ([]byte, error) {
	x := &exchange{
		client: c, request: provider.Request{Model: provider.Model{API: in.API}}, meter: provider.UsageMeter{API: in.API},
		assembly: newAssembly(func(provider.Delta) {}), call: &call{document: true, guard: empty},
	}
	if err := ctx.Err(); err != nil {
		return nil, x.fail(ctx, err)
	}
	resp, err := in.Get(withCall(ctx, x.call), path)
	if err != nil {
		return nil, x.fail(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, x.fail(ctx, err)
	}
	return body, nil
}

// empty is the guard of requests that must carry nothing.
func empty(body []byte) error {
	if len(body) > 0 {
		return errContent
	}
	return nil
}
