package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
)

// ErrSampling is returned when a model's or request's sampling is not a JSON object, or sets a field that is the
// engine's to set.
var ErrSampling = errors.New("invalid sampling")

// SamplingField is one top-level field to set in a request body.
type SamplingField struct {
	Name  string
	Value json.RawMessage
}

// reservedFields belong to the engine on every protocol: sampling that sets one would change what was recorded, measured
// or guarded, or keep state at the provider.
var reservedFields = map[string]bool{
	"model": true, "messages": true, "input": true, "instructions": true, "system": true, "tools": true,
	"stream": true, "stream_options": true, "store": true, "include": true, "previous_response_id": true,
	"conversation": true, "truncation": true, "background": true, "context_management": true, "n": true,
	"functions": true, "container": true, "prompt": true,
}

// OutputCapFields are the request fields that limit a response's tokens, as pkg/budget's guard looks for them.
var OutputCapFields = []string{"max_tokens", "max_completion_tokens", "max_output_tokens"}

// MergedSampling returns the fields of the model's sampling object and the request's, which wins, sorted by name so that
// equal requests have equal bodies. Values are replaced whole, never merged inside.
func (r Request) MergedSampling() ([]SamplingField, error) {
	merged := map[string]json.RawMessage{}
	for _, object := range []json.RawMessage{r.Model.Sampling, r.Sampling} {
		if len(object) == 0 {
			continue
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(object, &fields); err != nil {
			return nil, fmt.Errorf("%w: not a JSON object", ErrSampling)
		}
		for name, value := range fields {
			if reservedFields[name] {
				return nil, fmt.Errorf("%w: %s cannot be set", ErrSampling, name)
			}
			merged[name] = value
		}
	}
	out := make([]SamplingField, 0, len(merged))
	for name, value := range merged {
		out = append(out, SamplingField{name, value})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}
