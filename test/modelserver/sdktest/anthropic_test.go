package sdktest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
)

func anthropicClient(url string) anthropic.Client {
	return anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL(url), option.WithAPIKey(key),
		option.WithMaxRetries(0), option.WithoutOpenTelemetry())
}

func anthropicParams(model, text string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: model, MaxTokens: 2000,
		System:   []anthropic.TextBlockParam{{Text: "You add."}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
		Tools:    []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{Properties: map[string]any{}}, "add")},
		Thinking: anthropic.ThinkingConfigParamOfEnabled(1024),
	}
}

// anthropicStream accumulates a stream; ended says whether message_stop came.
func anthropicStream(t *testing.T, client anthropic.Client, params anthropic.MessageNewParams) (m anthropic.Message, ended bool, err error) {
	t.Helper()
	stream := client.Messages.NewStreaming(t.Context(), params)
	for stream.Next() {
		event := stream.Current()
		if err := m.Accumulate(event); err != nil {
			t.Fatal(err)
		}
		ended = event.Type == "message_stop"
	}
	return m, ended, stream.Err()
}

func checkAnthropic(t *testing.T, m anthropic.Message) {
	t.Helper()
	if len(m.Content) != 3 || m.StopReason != anthropic.StopReasonToolUse {
		t.Fatalf("stop %s, content %v", m.StopReason, m.Content)
	}
	think, text, use := m.Content[0].AsThinking(), m.Content[1].AsText(), m.Content[2].AsToolUse()
	if think.Thinking != thought || think.Signature == "" || text.Text != said {
		t.Errorf("thinking %q, text %q", think.Thinking, text.Text)
	}
	if use.ID != "c1" || use.Name != "add" || string(use.Input) != arguments {
		t.Errorf("call %s %s %s", use.ID, use.Name, use.Input)
	}
	u := m.Usage
	if u.InputTokens != 10 || u.OutputTokens != 20 || u.CacheReadInputTokens != 30 || u.CacheCreationInputTokens != 40 ||
		u.OutputTokensDetails.ThinkingTokens != 5 {
		t.Errorf("usage %s", u.RawJSON())
	}
}

func TestAnthropicConversation(t *testing.T) {
	url := serve(t)
	client := anthropicClient(url)
	params := anthropicParams("m", "1.5+ü?")
	m, ended, err := anthropicStream(t, client, params)
	if err != nil || !ended {
		t.Fatalf("ended %v, %v", ended, err)
	}
	checkAnthropic(t, m)
	whole, err := client.Messages.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	checkAnthropic(t, *whole)

	params.Messages = append(params.Messages, m.ToParam(),
		anthropic.NewUserMessage(anthropic.NewToolResultBlock("c1", toolResult, false)))
	m, _, err = anthropicStream(t, client, params)
	if err != nil || len(m.Content) != 1 || m.Content[0].Text != finally {
		t.Errorf("after the result: %v, %v", m.Content, err)
	}
}

func TestAnthropicFaults(t *testing.T) {
	url := serve(t)
	client := anthropicClient(url)
	if m, ended, err := anthropicStream(t, client, anthropicParams("cut", "truncate")); err != nil || ended || len(m.Content) != 1 {
		t.Errorf("truncate: ended %v, %v, %v", ended, m.Content, err)
	}
	if _, ended, err := anthropicStream(t, client, anthropicParams("cut", "drop")); !errors.Is(err, io.ErrUnexpectedEOF) || ended {
		t.Errorf("drop: ended %v, %v", ended, err)
	}
	var e *anthropic.Error
	if _, _, err := anthropicStream(t, client, anthropicParams("cut", "overload")); !errors.As(err, &e) || e.Type() != "overloaded_error" || e.StatusCode != http.StatusOK {
		t.Errorf("overload: %v", err)
	}
	if _, _, err := anthropicStream(t, client, anthropicParams("cut", "limit")); !errors.As(err, &e) || e.Type() != "rate_limit_error" ||
		e.StatusCode != http.StatusTooManyRequests || e.Response.Header.Get("Retry-After") != "7" || !strings.HasPrefix(e.RequestID, "req_") {
		t.Errorf("limit: %v", err)
	}
	if m, _, err := anthropicStream(t, client, anthropicParams("cut", "length")); err != nil || m.StopReason != anthropic.StopReasonMaxTokens {
		t.Errorf("length: stop %s, %v", m.StopReason, err)
	}
	if m, ended, err := anthropicStream(t, client, anthropicParams("cut", "silent")); err != nil || !ended || m.JSON.Usage.Valid() {
		t.Errorf("silent: usage %s, %v", m.Usage.RawJSON(), err)
	}
	long := anthropicParams("m", strings.Repeat("word ", 2000))
	if _, _, err := anthropicStream(t, client, long); !errors.As(err, &e) || e.StatusCode != http.StatusBadRequest || !strings.Contains(err.Error(), "prompt is too long") {
		t.Errorf("window: %v", err)
	}
}

func TestAnthropicCountsAndModels(t *testing.T) {
	url := serve(t)
	client := anthropicClient(url)
	count, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
		Model: "m", Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))}})
	if err != nil || count.InputTokens != 5 {
		t.Errorf("count %+v, %v", count, err)
	}
	model, err := client.Models.Get(t.Context(), "m", anthropic.ModelGetParams{})
	if err != nil || model.MaxInputTokens != 1000 || model.MaxTokens != 4096 {
		t.Errorf("model %+v, %v", model, err)
	}
	page, err := client.Models.List(t.Context(), anthropic.ModelListParams{})
	if err != nil || len(page.Data) != 2 {
		t.Errorf("models %+v, %v", page, err)
	}
	var e *anthropic.Error
	if _, err := client.Models.Get(t.Context(), "x", anthropic.ModelGetParams{}); !errors.As(err, &e) || e.StatusCode != http.StatusNotFound {
		t.Errorf("unknown model: %v", err)
	}
}
