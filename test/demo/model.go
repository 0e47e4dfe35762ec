package main

import (
	"fmt"
	"strconv"
	"strings"
)

// model is the model that the demo talks to.
type model struct {
	// scripted says that the answers are written down in objects/model.yaml.
	scripted bool
	// maker is who makes the real model, from names the variable that its key came from.
	maker, from string
	key         string

	Protocol, BaseURL, Model       string
	ContextWindow, MaxOutputTokens int64
	Thinking, Effort               string
}

// scriptedKey is the key that the scripted model server wants; objects/model.yaml has it as well.
const scriptedKey = "demo-key"

var scriptedModel = model{
	scripted: true, key: scriptedKey, Protocol: "Anthropic", Model: "demo", ContextWindow: 32000, MaxOutputTokens: 8192,
	Thinking: "FixedBudget", Effort: "low",
}

// realModels are the defaults for each key. Windows and ceilings are those that the makers document for the models.
var realModels = []model{
	{
		maker: "Anthropic", from: "ANTHROPIC_API_KEY", Protocol: "Anthropic", Model: "claude-haiku-4-5",
		ContextWindow: 200_000, MaxOutputTokens: 64_000, Thinking: "FixedBudget", Effort: "low",
	},
	{
		maker: "OpenAI", from: "OPENAI_API_KEY", Protocol: "OpenAIResponses", Model: "gpt-5",
		ContextWindow: 400_000, MaxOutputTokens: 128_000, Thinking: "Adaptive", Effort: "low",
	},
}

// keyVariables are the environment variables that hold keys.
var keyVariables = []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY"}

// chooseModel takes the real provider whose key is set, Anthropic first, and the scripted model when there is none.
func chooseModel(getenv func(string) string) (model, error) {
	for _, m := range realModels {
		if m.key = strings.TrimSpace(getenv(m.from)); m.key != "" {
			return m.adjust(getenv)
		}
	}
	return scriptedModel, nil
}

// adjust applies the DEMO_ variables. Another model than the default one is not asked to think: how it takes that is not
// known here.
func (m model) adjust(getenv func(string) string) (model, error) {
	if id := getenv("DEMO_MODEL"); id != "" && id != m.Model {
		m.Model, m.Thinking, m.Effort = id, "None", "off"
	}
	m.BaseURL = getenv("DEMO_BASE_URL")
	if protocol := getenv("DEMO_PROTOCOL"); protocol != "" {
		m.Protocol = protocol
	}
	if m.Protocol != "Anthropic" && m.Thinking == "FixedBudget" {
		m.Thinking, m.Effort = "None", "off"
	}
	for name, field := range map[string]*int64{"DEMO_CONTEXT_WINDOW": &m.ContextWindow, "DEMO_MAX_OUTPUT": &m.MaxOutputTokens} {
		text := getenv(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return m, fmt.Errorf("%s=%s: use a number of tokens", name, text)
		}
		*field = n
	}
	return m, nil
}

// about says which model it is.
func (m model) about() string {
	if m.scripted {
		return "The model is scripted: its answers are written down in test/demo/objects/model.yaml, all else is real.\n" +
			"Set ANTHROPIC_API_KEY or OPENAI_API_KEY to use a real one."
	}
	return fmt.Sprintf("The model is %s at %s (%s is set), with a window of %d tokens and answers of at most %d.\n"+
		"DEMO_MODEL, DEMO_CONTEXT_WINDOW and DEMO_MAX_OUTPUT choose another one. This costs a few cents.",
		m.Model, m.maker, m.from, m.ContextWindow, m.MaxOutputTokens)
}
