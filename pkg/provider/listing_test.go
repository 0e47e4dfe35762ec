package provider_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/provider"
)

// TestListedLimits reads limits under the names that providers and servers have for them.
func TestListedLimits(t *testing.T) {
	cases := map[string]struct {
		api            provider.API
		entry          string
		window, output int64 // 0 for not told
	}{
		"Anthropic":                      {provider.APIAnthropicMessages, `{"max_input_tokens":200000,"max_tokens":64000}`, 200000, 64000},
		"Anthropic tells no null":        {provider.APIAnthropicMessages, `{"max_input_tokens":null,"max_tokens":null}`, 0, 0},
		"another protocol's names":       {provider.APIAnthropicMessages, `{"context_length":1000}`, 0, 0},
		"OpenAI itself":                  {provider.APIOpenAIResponses, `{"id":"m","object":"model","created":1,"owned_by":"o"}`, 0, 0},
		"vLLM":                           {provider.APIOpenAIChat, `{"id":"m","max_model_len":32768,"permission":[]}`, 32768, 0},
		"Groq":                           {provider.APIOpenAIChat, `{"context_window":131072,"max_completion_tokens":8192}`, 131072, 8192},
		"OpenRouter":                     {provider.APIOpenAIChat, `{"context_length":400000,"top_provider":{"context_length":400000,"max_completion_tokens":128000}}`, 400000, 128000},
		"OpenRouter, when it knows none": {provider.APIOpenAIChat, `{"context_length":400000,"top_provider":{"max_completion_tokens":null}}`, 400000, 0},
		"Mistral":                        {provider.APIOpenAIChat, `{"max_context_length":32768}`, 32768, 0},
		"the other words for output":     {provider.APIOpenAIResponses, `{"max_output_length":7}`, 0, 7},
		"an unusable one, then another":  {provider.APIOpenAIChat, `{"max_model_len":0,"context_window":5}`, 5, 0},
		"a part of an object is none":    {provider.APIOpenAIChat, `{"top_provider":5,"max_completion_tokens":{}}`, 0, 0},
		"a fraction":                     {provider.APIOpenAIChat, `{"max_model_len":1.5}`, 0, 0},
		"more than a number can hold":    {provider.APIOpenAIChat, `{"max_model_len":9007199254740992,"max_output_tokens":1e999}`, 0, 0},
		"another spelling":               {provider.APIOpenAIChat, `{"Max_Model_Len":5}`, 0, 0},
		"no object":                      {provider.APIOpenAIChat, `[5]`, 0, 0},
		"nothing":                        {provider.APIOpenAIChat, ``, 0, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			window, output := provider.ListedLimits(c.api, []byte(c.entry))
			if got := [2]int64{orZero(window), orZero(output)}; got != [2]int64{c.window, c.output} {
				t.Errorf("limits %v", got)
			}
		})
	}
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// TestListedModels splits listings, whatever else they hold.
func TestListedModels(t *testing.T) {
	cases := map[string]struct {
		body string
		want []string // nil for no listing
	}{
		"a list":              {`{"object":"list","data":[{"id":"a"},{"id":"b","x":1}]}`, []string{"a", "b"}},
		"an empty list":       {`{"data":[]}`, []string{}},
		"a bare list":         {" \n[{\"id\":\"a\"}]", []string{"a"}},
		"odd entries":         {`{"data":[{"id":1},{"id":""},null,3,{"id":"a"}]}`, []string{"a"}},
		"no list":             {`{"data":{"id":"a"}}`, nil},
		"none at all":         {`{"models":[]}`, nil},
		"null":                {`{"data":null}`, nil},
		"an error":            {`{"error":{"message":"x"}}`, nil},
		"what is cut":         {`{"data":[{"id":"a"}`, nil},
		"a bare list, cut":    {`[{"id":"a"}`, nil},
		"something behind it": {`[{"id":"a"}] x`, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			models, err := provider.ListedModels([]byte(c.body))
			if (c.want == nil) != errors.Is(err, provider.ErrNoListing) {
				t.Fatalf("error %v", err)
			}
			want := map[string]bool{}
			for _, id := range c.want {
				want[id] = true
			}
			got := map[string]bool{}
			for id := range models {
				got[id] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzListing holds that whatever a listing says, an entry is found again under its id and its limits are usable.
func FuzzListing(f *testing.F) {
	f.Add([]byte(`{"data":[{"id":"a","max_input_tokens":1,"max_model_len":2,"top_provider":{"max_completion_tokens":3}}]}`))
	f.Add([]byte(`[{"id":"a","context_window":-1}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		models, err := provider.ListedModels(body)
		if err != nil && len(models) > 0 {
			t.Errorf("models with the error %v", err)
		}
		for id, entry := range models {
			if provider.ListedID(entry) != id || id == "" {
				t.Errorf("entry of %q is %s", id, entry)
			}
			for _, api := range []provider.API{provider.APIAnthropicMessages, provider.APIOpenAIChat} {
				window, output := provider.ListedLimits(api, entry)
				for _, n := range []*int64{window, output} {
					if n != nil && (*n < 1 || *n > 1<<53-1) {
						t.Errorf("limit %d of %s", *n, entry)
					}
				}
			}
		}
	})
}
