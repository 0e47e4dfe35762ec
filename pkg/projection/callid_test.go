package projection

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/agentloop/agentloop/pkg/provider"
)

func TestRulePerModel(t *testing.T) {
	cases := map[string]struct {
		model provider.Model
		want  idRule
	}{
		"Anthropic":                       {provider.Model{API: provider.APIAnthropicMessages}, idRule{max: 64, strict: true}},
		"Responses":                       {provider.Model{API: provider.APIOpenAIResponses}, idRule{max: 64}},
		"Chat":                            {provider.Model{Provider: "openai", API: provider.APIOpenAIChat, ID: "gpt"}, idRule{max: 40}},
		"Mistral by its provider":         {provider.Model{Provider: "MistralAI", API: provider.APIOpenAIChat, ID: "x"}, idRule{max: 9, exact: true}},
		"Mistral by its model id":         {provider.Model{Provider: "gw", API: provider.APIOpenAIChat, ID: "open/Codestral-2"}, idRule{max: 9, exact: true}},
		"Mistral behind another protocol": {provider.Model{Provider: "mistral", API: provider.APIAnthropicMessages}, idRule{max: 64, strict: true}},
		"unknown":                         {provider.Model{API: "new"}, idRule{max: 64, strict: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ruleFor(tc.model); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestForeignIDs checks for many ids, chosen to collide, that every one handed out is accepted and new.
func TestForeignIDs(t *testing.T) {
	accepted := map[string]*regexp.Regexp{
		"anthropic": regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`),
		"openai":    regexp.MustCompile(`^(?s).{1,64}$`),
		"local":     regexp.MustCompile(`^(?s).{1,40}$`),
		"mistral":   regexp.MustCompile(`^[a-zA-Z0-9]{9}$`),
	}
	for _, model := range testModels {
		want, ok := accepted[model.Provider]
		if !ok {
			continue
		}
		r := rand.New(rand.NewPCG(3, 4))
		ids := callIDs{rule: ruleFor(model), used: map[string]int{}}
		given := map[string]bool{}
		for i := range 4000 {
			id := randomID(r)
			if i%7 == 0 {
				id = fmt.Sprint(id, r.IntN(50))
			}
			if i%5 == 0 && len(id) > 0 { // what an earlier rewriting could have given
				id = ids.rule.candidate(id, 1+r.IntN(2))
			}
			got := ids.foreign(id, i)
			if !want.MatchString(got) || given[got] {
				t.Fatalf("%s: id %q gives %q: accepted %v, given before %v", model.ID, id, got, want.MatchString(got), given[got])
			}
			given[got] = true
		}
	}
}

func TestRewritingIsAFunctionOfTheIDAlone(t *testing.T) {
	rule := idRule{max: 64, strict: true}
	first := callIDs{rule: rule, used: map[string]int{}}
	second := callIDs{rule: rule, used: map[string]int{"other": 1, "toolu_9": 2}}
	for _, id := range []string{"a.b", "a|b", "", "日本", "functions.todo:0"} {
		if x, y := first.foreign(id, 1), second.foreign(id, 8); x != y {
			t.Errorf("id %q gives %q and %q", id, x, y)
		}
	}
}
