package sdktest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

func openAIOptions(url string) []option.RequestOption {
	return []option.RequestOption{option.WithBaseURL(url + "/v1/"), option.WithAPIKey(key), option.WithMaxRetries(0)}
}

func chatParams(model, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:               model,
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("You add."), openai.UserMessage(text)},
		MaxCompletionTokens: openai.Int(2000),
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(
			shared.FunctionDefinitionParam{Name: "add", Parameters: map[string]any{"type": "object"}})},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
}

// chatStream accumulates a stream; finish is its last finish reason.
func chatStream(t *testing.T, chat openai.ChatCompletionService, params openai.ChatCompletionNewParams) (c openai.ChatCompletion, finish string, err error) {
	t.Helper()
	stream := chat.NewStreaming(t.Context(), params)
	acc := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		chunk := stream.Current()
		if !acc.AddChunk(chunk) {
			t.Fatalf("chunk refused: %s", chunk.RawJSON())
		}
		for _, choice := range chunk.Choices {
			finish = choice.FinishReason
		}
	}
	return acc.ChatCompletion, finish, stream.Err()
}

func checkChat(t *testing.T, c openai.ChatCompletion) {
	t.Helper()
	if len(c.Choices) != 1 || c.Choices[0].FinishReason != "tool_calls" || c.Choices[0].Message.Content != said {
		t.Fatalf("choices %+v", c.Choices)
	}
	calls := c.Choices[0].Message.ToolCalls
	if len(calls) != 1 || calls[0].ID != "c1" || calls[0].Function.Name != "add" || calls[0].Function.Arguments != arguments {
		t.Errorf("calls %+v", calls)
	}
	u := c.Usage
	if u.PromptTokens != 80 || u.CompletionTokens != 20 || u.TotalTokens != 100 || u.PromptTokensDetails.CachedTokens != 30 ||
		u.CompletionTokensDetails.ReasoningTokens != 5 {
		t.Errorf("usage %+v", u)
	}
}

func TestChatConversation(t *testing.T) {
	url := serve(t)
	chat := openai.NewChatCompletionService(openAIOptions(url)...)
	params := chatParams("m", "1.5+ü?")
	c, _, err := chatStream(t, chat, params)
	if err != nil {
		t.Fatal(err)
	}
	checkChat(t, c)
	once := params
	once.StreamOptions = openai.ChatCompletionStreamOptionsParam{}
	whole, err := chat.New(t.Context(), once)
	if err != nil {
		t.Fatal(err)
	}
	checkChat(t, *whole)

	params.Messages = append(params.Messages, whole.Choices[0].Message.ToParam(), openai.ToolMessage(toolResult, "c1"))
	c, finish, err := chatStream(t, chat, params)
	if err != nil || finish != "stop" && c.Choices[0].FinishReason != "stop" || c.Choices[0].Message.Content != finally {
		t.Errorf("after the result: %+v, %v", c.Choices, err)
	}
}

func TestChatFaults(t *testing.T) {
	url := serve(t)
	chat := openai.NewChatCompletionService(openAIOptions(url)...)
	if c, finish, err := chatStream(t, chat, chatParams("cut", "truncate")); err != nil || finish != "" || c.Choices[0].Message.Content == "" {
		t.Errorf("truncate: finish %q, %v", finish, err)
	}
	if _, _, err := chatStream(t, chat, chatParams("cut", "drop")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("drop: %v", err)
	}
	var inStream *ssestream.StreamError
	if _, _, err := chatStream(t, chat, chatParams("cut", "overload")); !errors.As(err, &inStream) || !strings.Contains(string(inStream.Event.Data), "Overloaded") {
		t.Errorf("overload: %v", err)
	}
	var e *openai.Error
	if _, _, err := chatStream(t, chat, chatParams("cut", "limit")); !errors.As(err, &e) || e.Code != "rate_limit_exceeded" ||
		e.StatusCode != http.StatusTooManyRequests || e.Response.Header.Get("Retry-After") != "7" {
		t.Errorf("limit: %v", err)
	}
	if c, _, err := chatStream(t, chat, chatParams("cut", "length")); err != nil || c.Choices[0].FinishReason != "length" ||
		c.Choices[0].Message.ToolCalls[0].Function.Arguments != `{"a": 1` {
		t.Errorf("length: %+v, %v", c.Choices, err)
	}
	if c, _, err := chatStream(t, chat, chatParams("cut", "silent")); err != nil || c.Usage.TotalTokens != 0 {
		t.Errorf("silent: usage %+v, %v", c.Usage, err)
	}
	if _, _, err := chatStream(t, chat, chatParams("m", strings.Repeat("word ", 2000))); !errors.As(err, &e) || e.Code != "context_length_exceeded" {
		t.Errorf("window: %v", err)
	}
}

func responsesParams(model, text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: model, Instructions: openai.String("You add."), MaxOutputTokens: openai.Int(2000), Store: openai.Bool(false),
		Include:   []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
		Reasoning: shared.ReasoningParam{Effort: shared.ReasoningEffortLow, Summary: shared.ReasoningSummaryAuto},
		Tools:     []responses.ToolUnionParam{responses.ToolParamOfFunction("add", map[string]any{"type": "object"}, false)},
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
			responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser)}},
	}
}

// responsesStream returns the response of the last event that has one and the type of the last event.
func responsesStream(t *testing.T, api responses.ResponseService, params responses.ResponseNewParams) (r responses.Response, last string, err error) {
	t.Helper()
	stream := api.NewStreaming(t.Context(), params)
	for stream.Next() {
		event := stream.Current()
		last = event.Type
		if event.JSON.Response.Valid() {
			r = event.Response
		}
	}
	return r, last, stream.Err()
}

func checkResponse(t *testing.T, r responses.Response) {
	t.Helper()
	if len(r.Output) != 3 || r.Status != responses.ResponseStatusCompleted || r.OutputText() != said {
		t.Fatalf("status %s, output %+v", r.Status, r.Output)
	}
	reasoning, call := r.Output[0].AsReasoning(), r.Output[2].AsFunctionCall()
	if len(reasoning.Summary) != 1 || reasoning.Summary[0].Text != thought || reasoning.EncryptedContent == "" {
		t.Errorf("reasoning %s", reasoning.RawJSON())
	}
	if call.CallID != "c1" || call.Name != "add" || call.Arguments != arguments {
		t.Errorf("call %s", call.RawJSON())
	}
	u := r.Usage
	if u.InputTokens != 80 || u.OutputTokens != 20 || u.TotalTokens != 100 || u.InputTokensDetails.CachedTokens != 30 ||
		u.InputTokensDetails.CacheWriteTokens != 40 || u.OutputTokensDetails.ReasoningTokens != 5 {
		t.Errorf("usage %s", u.RawJSON())
	}
}

func TestResponsesConversation(t *testing.T) {
	url := serve(t)
	api := responses.NewResponseService(openAIOptions(url)...)
	params := responsesParams("m", "1.5+ü?")
	r, last, err := responsesStream(t, api, params)
	if err != nil || last != "response.completed" {
		t.Fatalf("ends with %s, %v", last, err)
	}
	checkResponse(t, r)
	whole, err := api.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	checkResponse(t, *whole)

	reasoning, message, call := r.Output[0].AsReasoning().ToParam(), r.Output[1].AsMessage().ToParam(), r.Output[2].AsFunctionCall().ToParam()
	params.Input.OfInputItemList = append(params.Input.OfInputItemList,
		responses.ResponseInputItemUnionParam{OfReasoning: &reasoning},
		responses.ResponseInputItemUnionParam{OfOutputMessage: &message},
		responses.ResponseInputItemUnionParam{OfFunctionCall: &call},
		responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
			CallID: param.NewOpt("c1"),
			Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String(toolResult)}}})
	r, last, err = responsesStream(t, api, params)
	if err != nil || last != "response.completed" || r.OutputText() != finally {
		t.Errorf("after the result: %s %q, %v", last, r.OutputText(), err)
	}
}

func TestResponsesFaults(t *testing.T) {
	url := serve(t)
	api := responses.NewResponseService(openAIOptions(url)...)
	if _, last, err := responsesStream(t, api, responsesParams("cut", "truncate")); err != nil || last != "response.output_text.delta" {
		t.Errorf("truncate: ends with %s, %v", last, err)
	}
	if _, _, err := responsesStream(t, api, responsesParams("cut", "drop")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("drop: %v", err)
	}
	var inStream *ssestream.StreamError
	if _, _, err := responsesStream(t, api, responsesParams("cut", "overload")); !errors.As(err, &inStream) || !strings.Contains(string(inStream.Event.Data), "Overloaded") {
		t.Errorf("overload: %v", err)
	}
	var e *openai.Error
	if _, _, err := responsesStream(t, api, responsesParams("cut", "limit")); !errors.As(err, &e) || e.Code != "rate_limit_exceeded" {
		t.Errorf("limit: %v", err)
	}
	r, last, err := responsesStream(t, api, responsesParams("cut", "length"))
	if err != nil || last != "response.incomplete" || r.IncompleteDetails.Reason != "max_output_tokens" ||
		r.Output[0].AsFunctionCall().Status != "incomplete" || r.Output[0].AsFunctionCall().Arguments != `{"a": 1` {
		t.Errorf("length: %s, %s, %v", last, r.RawJSON(), err)
	}
	if r, _, err := responsesStream(t, api, responsesParams("cut", "silent")); err != nil || r.JSON.Usage.Valid() {
		t.Errorf("silent: usage %s, %v", r.Usage.RawJSON(), err)
	}
	long := responsesParams("m", strings.Repeat("word ", 2000))
	if _, _, err := responsesStream(t, api, long); !errors.As(err, &inStream) || !strings.Contains(string(inStream.Event.Data), "context_length_exceeded") {
		t.Errorf("window, streamed: %v", err)
	}
	if _, err := api.New(t.Context(), long); !errors.As(err, &e) || e.Code != "context_length_exceeded" {
		t.Errorf("window: %v", err)
	}
}

func TestOpenAIModels(t *testing.T) {
	url := serve(t)
	models := openai.NewModelService(openAIOptions(url)...)
	page, err := models.List(t.Context())
	if err != nil || len(page.Data) != 2 || page.Data[0].ID != "m" {
		t.Errorf("models %+v, %v", page, err)
	}
	if m, err := models.Get(t.Context(), "cut"); err != nil || m.ID != "cut" {
		t.Errorf("model %+v, %v", m, err)
	}
}
