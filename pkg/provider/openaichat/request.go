package openaichat

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

var errImageNotLoaded = errors.New("an image of the request has no data")

// imageOnly is the text of a tool result that consists of images: the protocol takes text there only, so the images
// follow in a user message.
const imageOnly = "(see the attached image)"

// build returns the request without its sampling fields, which are given for the sake of the output cap.
func (o requestOptions) build(req provider.Request, fields []provider.SamplingField) (sdk.ChatCompletionNewParams, error) {
	params := sdk.ChatCompletionNewParams{
		Model:         req.Model.ID,
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
	}
	o.setOutputCap(&params, req.MaxTokens, fields)
	if req.Model.Thinking != provider.ThinkingNone && req.Model.Thinking != "" && req.Reasoning.On() {
		params.ReasoningEffort = shared.ReasoningEffort(req.Reasoning)
	}
	for _, t := range req.Tools {
		// The raw form keeps the schema's keys in order, which the SDK's map would not.
		params.Tools = append(params.Tools, sdk.ChatCompletionToolUnionParam{OfFunction: &sdk.ChatCompletionFunctionToolParam{
			Function: param.Override[shared.FunctionDefinitionParam](json.RawMessage(t.AppendJSON(nil)))}})
	}
	c := conversation{options: o}
	if req.System != "" {
		c.messages = append(c.messages, sdk.SystemMessage(req.System))
	}
	if err := c.convert(req.Messages); err != nil {
		return params, err
	}
	params.Messages = c.messages
	return params, nil
}

// setOutputCap declares the cap once: sampling that has a cap field of its own replaces ours, since servers refuse two.
func (o requestOptions) setOutputCap(params *sdk.ChatCompletionNewParams, limit int64, fields []provider.SamplingField) {
	for _, f := range fields {
		if slices.Contains(provider.OutputCapFields, f.Name) {
			return
		}
	}
	switch {
	case limit <= 0:
	case o.legacyMaxTokens:
		params.MaxTokens = sdk.Int(limit)
	default:
		params.MaxCompletionTokens = sdk.Int(limit)
	}
}

// conversation is the wire form of the messages. images waits for the end of a run of tool results.
type conversation struct {
	options  requestOptions
	messages []sdk.ChatCompletionMessageParamUnion
	images   []sdk.ChatCompletionContentPartUnionParam
}

func (c *conversation) convert(messages []message.Message) error {
	for i, m := range messages {
		var err error
		switch m.Role {
		case message.RoleUser:
			err = c.user(m)
		case message.RoleToolResult:
			err = c.result(m)
		case message.RoleAssistant:
			c.flushImages()
			err = c.assistant(m)
		default:
			err = fmt.Errorf("unknown role %q", m.Role)
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	c.flushImages()
	return nil
}

func (c *conversation) flushImages() {
	if len(c.images) > 0 {
		c.messages = append(c.messages, sdk.UserMessage(c.images))
		c.images = nil
	}
}

// user appends a user message. Images of results before it go in front of its own content, so that roles alternate.
func (c *conversation) user(m message.Message) error {
	parts := c.images
	c.images = nil
	if m.Content.IsText {
		if m.Content.Text != "" {
			parts = append(parts, sdk.TextContentPart(m.Content.Text))
		}
	}
	for _, b := range m.Content.Blocks {
		switch {
		case b.Type == message.BlockText && b.Text != "":
			parts = append(parts, sdk.TextContentPart(b.Text))
		case b.Type == message.BlockText:
		case b.Type == message.BlockImage:
			part, err := image(b)
			if err != nil {
				return err
			}
			parts = append(parts, part)
		default:
			return fmt.Errorf("a user message cannot hold a %s block", b.Type)
		}
	}
	switch {
	case len(parts) == 0:
	case len(parts) == 1 && parts[0].OfText != nil:
		c.messages = append(c.messages, sdk.UserMessage(parts[0].OfText.Text))
	default:
		c.messages = append(c.messages, sdk.UserMessage(parts))
	}
	return nil
}

func image(b message.Block) (sdk.ChatCompletionContentPartUnionParam, error) {
	if b.Data == "" {
		return sdk.ChatCompletionContentPartUnionParam{}, errImageNotLoaded
	}
	return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{
		URL: "data:" + b.MediaType + ";base64," + b.Data}), nil
}

func (c *conversation) result(m message.Message) error {
	text := m.Content.Text
	hasImage := false
	for _, b := range m.Content.Blocks {
		switch b.Type {
		case message.BlockText:
			text += b.Text
		case message.BlockImage:
			part, err := image(b)
			if err != nil {
				return err
			}
			c.images = append(c.images, part)
			hasImage = true
		default:
			return fmt.Errorf("a tool result cannot hold a %s block", b.Type)
		}
	}
	if text == "" && hasImage {
		text = imageOnly
	}
	c.messages = append(c.messages, sdk.ToolMessage(text, m.ToolCallID))
	return nil
}

func (c *conversation) assistant(m message.Message) error {
	var (
		text, reasoning strings.Builder
		field           string
		out             sdk.ChatCompletionAssistantMessageParam
	)
	for _, b := range m.Content.Blocks {
		switch b.Type {
		case message.BlockText:
			text.WriteString(b.Text)
		case message.BlockThinking:
			if isReasoningField(b.ThinkingSignature) && !c.options.dropReasoning {
				field = b.ThinkingSignature
				reasoning.WriteString(b.Thinking)
			}
		case message.BlockToolCall:
			out.ToolCalls = append(out.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{ID: b.ID,
					Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
						Name: b.Name, Arguments: string(message.AppendRaw(nil, b.Arguments))}}})
		default:
			return fmt.Errorf("an assistant cannot hold a %s block", b.Type)
		}
	}
	switch {
	case text.Len() > 0:
		out.Content.OfString = sdk.String(text.String())
	case len(out.ToolCalls) > 0:
		out.Content.OfString = param.Null[string]()
	default:
		return nil // nothing that the protocol could carry
	}
	if reasoning.Len() > 0 {
		out.SetExtraFields(map[string]any{field: reasoning.String()})
	}
	c.messages = append(c.messages, sdk.ChatCompletionMessageParamUnion{OfAssistant: &out})
	return nil
}
