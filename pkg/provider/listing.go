package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
)

// ErrNoListing is returned when a provider has no listing of its models where its protocol has one.
var ErrNoListing = errors.New("the provider lists no models")

// ModelInfo is what a provider's own listing tells about one model. Limits are in tokens; nil means that it does not tell.
type ModelInfo struct {
	// ID is the id that was asked for.
	ID string
	// Listed is false when the provider knows no model of that id.
	Listed bool
	// ContextWindow is how much the model takes, MaxTokens how much one answer may have.
	ContextWindow, MaxTokens *int64
}

// Describer asks a provider for what it tells about its models. It is implemented by the adapters below this package.
//
// Describe returns one ModelInfo for each id, in their order; they belong to the caller. It sends the provider the
// endpoint's headers and the ids, nothing else, and never retries. A failure is an *Error (errors.As) without Partial; it
// wraps ErrNoListing when the provider has no listing. Context errors stay visible to errors.Is.
type Describer interface {
	Describe(ctx context.Context, ids []string) ([]ModelInfo, error)
}

// listedFields are the names under which an entry of a listing tells a limit; the first that is there counts. A dot leads
// into an object. The OpenAI protocols themselves have none: these are the names that servers add.
var listedFields = map[bool]struct{ window, output []string }{
	false: {window: []string{"max_input_tokens"}, output: []string{"max_tokens"}},
	true: {
		window: []string{"max_model_len", "context_window", "context_length", "max_context_length"},
		output: []string{"max_completion_tokens", "max_output_tokens", "max_output_length", "max_output", "top_provider.max_completion_tokens"},
	},
}

// ListedLimits reads the limits that an entry of a model listing tells, in the protocol's own fields or those that servers
// add to them. nil means that it tells none that can be used. It is pure and never fails.
func ListedLimits(api API, entry []byte) (window, maxTokens *int64) {
	fields := listedFields[api.OpenAICompatible()]
	return listedLimit(entry, fields.window), listedLimit(entry, fields.output)
}

// maxSafe is the largest number of tokens that a capacity may have.
const maxSafe = 1<<53 - 1

func listedLimit(entry []byte, names []string) *int64 {
	for _, name := range names {
		var n int64
		if raw := member(entry, name); raw != nil && json.Unmarshal(raw, &n) == nil && n > 0 && n <= maxSafe {
			return &n
		}
	}
	return nil
}

// member is a member of a JSON object by its exact name; nil when there is none.
func member(object []byte, path string) json.RawMessage {
	name, rest, nested := strings.Cut(path, ".")
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return nil
	}
	value := members[name]
	if nested {
		return member(value, rest)
	}
	return value
}

// ListedModels splits the body of a model listing into its entries by id. It fails with ErrNoListing when the body is none.
func ListedModels(body []byte) (map[string]json.RawMessage, error) {
	entries := []json.RawMessage{}
	list := bytes.TrimSpace(body)
	if !bytes.HasPrefix(list, []byte("[")) { // some servers leave the object around the list away
		list = member(list, "data")
	}
	if !bytes.HasPrefix(list, []byte("[")) || json.Unmarshal(list, &entries) != nil {
		return nil, ErrNoListing
	}
	models := make(map[string]json.RawMessage, len(entries))
	for _, entry := range entries {
		if id := ListedID(entry); id != "" {
			models[id] = entry
		}
	}
	return models, nil
}

// ListedID is the id of an entry; empty when it is no model.
func ListedID(entry []byte) string {
	var id string
	_ = json.Unmarshal(member(entry, "id"), &id) // an id that is no string is none
	return id
}
