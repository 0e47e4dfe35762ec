package openairesponses

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// minOutputTokens is the smallest output cap that the protocol takes.
const minOutputTokens = 16

var errImageNotLoaded = errors.New("an image of the request has no data")

// build returns the request without its sampling fields, which are given for the sake of the output cap.
func build(req provider.Request, fields []provider.SamplingField, summary bool) (responses.ResponseNewParams, error) {
	params := responses.ResponseNewParams{Model: req.Model.ID, Store: sdk.Bool(false)}
	if req.System != "" {
		params.Instructions = sdk.String(req.System)
	}
	setOutputCap(&params, req.MaxTokens, fields)
	setReasoning(&params, req, summary)
	for _, t := range req.Tools {
		params.Tools = append(params.Tools, tool(t))
	}
	items, err := convert(req.Messages)
	if err != nil {
		return params, err
	}
	params.Input.OfInputItemList = items
	return params, nil
}

// setOutputCap declares the cap once: sampling that has a cap field of its own replaces ours.
func setOutputCap(params *responses.ResponseNewParams, limit int64, fields []provider.SamplingField) {
	for _, f := range fields {
		if slices.Contains(provider.OutputCapFields, f.Name) {
			return
		}
	}
	if limit > 0 {
		params.MaxOutputTokens = sdk.Int(max(limit, minOutputTokens))
	}
}

// setReasoning asks for the encrypted content whenever the model can reason: many do so unasked, and without the content
// their reasoning could not be replayed.
func setReasoning(params *responses.ResponseNewParams, req provider.Request, summary bool) {
	if req.Model.Thinking == provider.ThinkingNone || req.Model.Thinking == "" {
		return
	}
	params.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	if !req.Reasoning.On() {
		return
	}
	params.Reasoning.Effort = shared.ReasoningEffort(req.Reasoning)
	if summary {
		params.Reasoning.Summary = shared.ReasoningSummaryAuto
	}
}

// tool keeps the schema's bytes, whose keys the SDK's map would reorder. Strict checking is off: it is on by default and
// refuses most schemas that tool servers declare.
func tool(t message.Tool) responses.ToolUnionParam {
	raw := append([]byte(`{"type":"function","strict":false,`), t.AppendJSON(nil)[1:]...)
	function := param.Override[responses.FunctionToolParam](json.RawMessage(raw))
	return responses.ToolUnionParam{OfFunction: &function}
}

func convert(messages []message.Message) (responses.ResponseInputParam, error) {
	var items responses.ResponseInputParam
	for i, m := range messages {
		var (
			next []responses.ResponseInputItemUnionParam
			err  error
		)
		switch m.Role {
		case message.RoleUser:
			next, err = user(m)
		case message.RoleToolResult:
			next, err = result(m)
		case message.RoleAssistant:
			next, err = assistant(m)
		default:
			err = fmt.Errorf("unknown role %q", m.Role)
		}
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		items = append(items, next...)
	}
	return items, nil
}

func user(m message.Message) ([]responses.ResponseInputItemUnionParam, error) {
	if m.Content.IsText {
		return userText(m.Content.Text), nil
	}
	var parts responses.ResponseInputMessageContentListParam
	for _, b := range m.Content.Blocks {
		switch {
		case b.Type == message.BlockText && b.Text != "":
			parts = append(parts, responses.ResponseInputContentParamOfInputText(b.Text))
		case b.Type == message.BlockText:
		case b.Type == message.BlockImage && b.Data == "":
			return nil, errImageNotLoaded
		case b.Type == message.BlockImage:
			parts = append(parts, responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{
				Detail: responses.ResponseInputImageDetailAuto, ImageURL: sdk.String(dataURL(b))}})
		default:
			return nil, fmt.Errorf("a user message cannot hold a %s block", b.Type)
		}
	}
	switch {
	case len(parts) == 0:
		return nil, nil
	case len(parts) == 1 && parts[0].OfInputText != nil:
		return userText(parts[0].OfInputText.Text), nil
	}
	return []responses.ResponseInputItemUnionParam{
		responses.ResponseInputItemParamOfMessage(parts, responses.EasyInputMessageRoleUser)}, nil
}

func userText(text string) []responses.ResponseInputItemUnionParam {
	if text == "" {
		return nil
	}
	return []responses.ResponseInputItemUnionParam{
		responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser)}
}

func dataURL(b message.Block) string { return "data:" + b.MediaType + ";base64," + b.Data }

func result(m message.Message) ([]responses.ResponseInputItemUnionParam, error) {
	out := responses.ResponseInputItemFunctionCallOutputParam{CallID: sdk.String(m.ToolCallID)}
	var (
		text  = m.Content.Text
		parts responses.ResponseFunctionCallOutputItemListParam
		image bool
	)
	for _, b := range m.Content.Blocks {
		switch {
		case b.Type == message.BlockText:
			text += b.Text
			if b.Text != "" {
				parts = append(parts, responses.ResponseFunctionCallOutputItemUnionParam{
					OfInputText: &responses.ResponseInputTextContentParam{Text: b.Text}})
			}
		case b.Type == message.BlockImage && b.Data == "":
			return nil, errImageNotLoaded
		case b.Type == message.BlockImage:
			image = true
			parts = append(parts, responses.ResponseFunctionCallOutputItemUnionParam{
				OfInputImage: &responses.ResponseInputImageContentParam{
					Detail: responses.ResponseInputImageContentDetailAuto, ImageURL: sdk.String(dataURL(b))}})
		default:
			return nil, fmt.Errorf("a tool result cannot hold a %s block", b.Type)
		}
	}
	if image {
		out.Output.OfResponseFunctionCallOutputItemArray = parts
	} else {
		out.Output.OfString = sdk.String(text)
	}
	return []responses.ResponseInputItemUnionParam{{OfFunctionCallOutput: &out}}, nil
}

// assistant returns the items of an assistant message. They go out without their ids: with store off the provider knows
// none, and an id would make it look for the item's reasoning even where that was rightly left out. Reasoning waits for
// the item after it and is left out when there is none.
func assistant(m message.Message) ([]responses.ResponseInputItemUnionParam, error) {
	var items, reasoning []responses.ResponseInputItemUnionParam
	for _, b := range m.Content.Blocks {
		var item responses.ResponseInputItemUnionParam
		switch b.Type {
		case message.BlockThinking:
			if r, ok := replay(b); ok {
				reasoning = append(reasoning, r)
			}
			continue
		case message.BlockText:
			if b.Text == "" {
				continue
			}
			item.OfOutputMessage = &responses.ResponseOutputMessageParam{
				Content: []responses.ResponseOutputMessageContentUnionParam{{
					OfOutputText: &responses.ResponseOutputTextParam{Text: b.Text,
						Annotations: []responses.ResponseOutputTextAnnotationUnionParam{}}}},
				Phase: responses.ResponseOutputMessagePhase(readTextSignature(b.TextSignature).Phase),
			}
		case message.BlockToolCall:
			item.OfFunctionCall = &responses.ResponseFunctionToolCallParam{
				CallID: b.ID, Name: b.Name, Arguments: string(message.AppendRaw(nil, b.Arguments))}
		default:
			return nil, fmt.Errorf("an assistant cannot hold a %s block", b.Type)
		}
		items = append(append(items, reasoning...), item)
		reasoning = nil
	}
	return items, nil
}
