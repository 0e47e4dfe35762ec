package provider_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/internal/vectors"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

func TestVectors(t *testing.T) {
	vectors.Run(t, "provider", func(t *testing.T, raw json.RawMessage) {
		var head struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			t.Fatal(err)
		}
		switch head.Kind {
		case "classify":
			classifyVector(t, raw)
		case "usage":
			usageVector(t, raw)
		default:
			t.Fatalf("unknown kind %q", head.Kind)
		}
	})
}

func knownAPI(t *testing.T, api provider.API) {
	t.Helper()
	switch api {
	case provider.APIAnthropicMessages, provider.APIOpenAIChat, provider.APIOpenAIResponses:
		return
	}
	t.Fatalf("unknown api %q", api)
}

func classifyVector(t *testing.T, raw json.RawMessage) {
	var c struct {
		Name   string         `json:"name"`
		Kind   string         `json:"kind"`
		API    provider.API   `json:"api"`
		Status int            `json:"status"`
		Body   string         `json:"body"`
		Want   provider.Class `json:"want"`
	}
	if err := vectors.Decode(raw, &c); err != nil {
		t.Fatal(err)
	}
	knownAPI(t, c.API)
	if got := provider.Classify(c.API, c.Status, nil, []byte(c.Body)); got.Class != c.Want {
		t.Errorf("class %s, want %s (type %q, code %q)", got.Class, c.Want, got.Type, got.Code)
	}
}

func usageVector(t *testing.T, raw json.RawMessage) {
	var c struct {
		Name   string            `json:"name"`
		Kind   string            `json:"kind"`
		API    provider.API      `json:"api"`
		Events []json.RawMessage `json:"events"`
		Want   message.Usage     `json:"want"`
	}
	if err := vectors.Decode(raw, &c); err != nil {
		t.Fatal(err)
	}
	knownAPI(t, c.API)
	meter := provider.UsageMeter{API: c.API}
	for _, event := range c.Events {
		meter.Add(event)
	}
	got := message.Usage{}
	if u := meter.Usage(); u != nil {
		got = *u
	}
	if diff := cmp.Diff(c.Want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}
