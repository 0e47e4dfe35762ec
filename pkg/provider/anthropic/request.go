package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// minThinkingBudget is the smallest budget that the protocol takes.
const minThinkingBudget = 1024

// imageOnly is the text of a failed result that consists of images: the protocol takes neither images nor nothing there, so
// the images follow the results.
const imageOnly = "(see the attached image)"

var errImageNotLoaded = errors.New("an image of the request has no data")

// build returns the request without its sampling fields.
func build(req provider.Request) (sdk.MessageNewParams, error) {
	params := sdk.MessageNewParams{Model: req.Model.ID, MaxTokens: req.MaxTokens}
	if params.MaxTokens == 0 {
		params.MaxTokens = req.Model.MaxTokens // the field is required
	}
	if !blank(req.System) {
		params.System = []sdk.TextBlockParam{{Text: req.System}}
	}
	for _, t := range req.Tools {
		params.Tools = append(params.Tools, tool(t))
	}
	setThinking(&params, req)
	conversation, err := convert(req.Messages)
	if err != nil {
		return params, err
	}
	params.Messages = conversation.messages
	if req.PromptCache {
		setBreakpoints(&params, conversation, req.StablePrefix)
	}
	return params, nil
}

// sampling returns the sampling fields to set. The output cap is the engine's on this protocol.
func sampling(req provider.Request) ([]provider.SamplingField, error) {
	fields, err := req.MergedSampling()
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		if slices.Contains(provider.OutputCapFields, f.Name) {
			return nil, fmt.Errorf("%w: %s cannot be set on this protocol", provider.ErrSampling, f.Name)
		}
	}
	return fields, nil
}

// blank says whether the protocol would refuse a text block with this text.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

// tool keeps the schema's bytes as they are: the SDK's own type would reorder its keys.
func tool(t message.Tool) sdk.ToolUnionParam {
	p := sdk.ToolParam{
		Name:        t.Name,
		InputSchema: param.Override[sdk.ToolInputSchemaParam](json.RawMessage(message.AppendRaw(nil, t.Parameters))),
	}
	if t.Description != "" {
		p.Description = sdk.String(t.Description)
	}
	return sdk.ToolUnionParam{OfTool: &p}
}

func setThinking(params *sdk.MessageNewParams, req provider.Request) {
	if !req.Reasoning.On() {
		return
	}
	switch req.Model.Thinking {
	case provider.ThinkingFixed:
		if req.ThinkingBudget >= minThinkingBudget {
			params.Thinking = sdk.ThinkingConfigParamOfEnabled(req.ThinkingBudget)
		}
	case provider.ThinkingAdaptive:
		// Newer models leave the text out unless it is asked for.
		params.Thinking = sdk.ThinkingConfigParamUnion{OfAdaptive: &sdk.ThinkingConfigAdaptiveParam{
			Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}}
		params.OutputConfig.Effort = effort(req.Reasoning)
	}
}

func effort(level provider.Level) sdk.OutputConfigEffort {
	if level == provider.LevelMinimal {
		return sdk.OutputConfigEffortLow // the protocol's lowest
	}
	return sdk.OutputConfigEffort(level)
}

// conversation is the wire form of the messages. last[i] is the block that ends source message i and can carry a cache
// breakpoint; nil when it has none.
type conversation struct {
	messages []sdk.MessageParam
	last     []*sdk.ContentBlockParamUnion
}

// turn is what stands between two assistant messages: one user message on the wire, results first, then the images of
// error results, which must not stand inside them, then what the user said.
type turn struct {
	results, images, said []*sdk.ContentBlockParamUnion
}

func convert(messages []message.Message) (*conversation, error) {
	c := &conversation{last: make([]*sdk.ContentBlockParamUnion, len(messages))}
	var open turn
	for i, m := range messages {
		var err error
		switch m.Role {
		case message.RoleAssistant:
			c.flush(&open)
			err = c.assistant(i, m)
		case message.RoleToolResult:
			err = c.result(&open, i, m)
		case message.RoleUser:
			err = c.user(&open, i, m)
		default:
			err = fmt.Errorf("message %d has the unknown role %q", i, m.Role)
		}
		if err != nil {
			return nil, err
		}
	}
	c.flush(&open)
	return c, nil
}

func (c *conversation) flush(open *turn) {
	var blocks []sdk.ContentBlockParamUnion
	for _, b := range slices.Concat(open.results, open.images, open.said) {
		blocks = append(blocks, *b)
	}
	if len(blocks) > 0 {
		c.messages = append(c.messages, sdk.NewUserMessage(blocks...))
	}
	*open = turn{}
}

func (c *conversation) assistant(i int, m message.Message) error {
	var blocks []sdk.ContentBlockParamUnion
	for _, b := range m.Content.Blocks {
		var block sdk.ContentBlockParamUnion
		switch b.Type {
		case message.BlockText:
			if blank(b.Text) {
				continue
			}
			block = sdk.NewTextBlock(b.Text)
			c.last[i] = &block
		case message.BlockThinking:
			switch {
			case b.ThinkingSignature == "":
				continue // the protocol takes no unsigned thinking
			case b.Redacted:
				block = sdk.NewRedactedThinkingBlock(b.ThinkingSignature)
			default:
				block = sdk.NewThinkingBlock(b.ThinkingSignature, b.Thinking)
			}
		case message.BlockToolCall:
			block = sdk.NewToolUseBlock(b.ID, json.RawMessage(message.AppendRaw(nil, b.Arguments)), b.Name)
			c.last[i] = &block
		default:
			return fmt.Errorf("message %d: an assistant cannot hold a %s block", i, b.Type)
		}
		blocks = append(blocks, block)
	}
	if len(blocks) > 0 {
		c.messages = append(c.messages, sdk.NewAssistantMessage(blocks...))
	}
	return nil
}

func (c *conversation) user(open *turn, i int, m message.Message) error {
	blocks := m.Content.Blocks
	if m.Content.IsText {
		blocks = []message.Block{{Type: message.BlockText, Text: m.Content.Text}}
	}
	for _, b := range blocks {
		block, err := part(b)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if block != nil {
			open.said = append(open.said, block)
			c.last[i] = block
		}
	}
	return nil
}

// part returns a user's text or image; nil for a text that must not be sent.
func part(b message.Block) (*sdk.ContentBlockParamUnion, error) {
	switch b.Type {
	case message.BlockText:
		if blank(b.Text) {
			return nil, nil //nolint:nilnil // as documented: there is no block, and nothing is wrong with that
		}
		block := sdk.NewTextBlock(b.Text)
		return &block, nil
	case message.BlockImage:
		if b.Data == "" {
			return nil, errImageNotLoaded
		}
		block := sdk.NewImageBlockBase64(b.MediaType, b.Data)
		return &block, nil
	}
	return nil, fmt.Errorf("a user message cannot hold a %s block", b.Type)
}

func (c *conversation) result(open *turn, i int, m message.Message) error {
	result := sdk.ToolResultBlockParam{ToolUseID: m.ToolCallID}
	if m.IsError {
		result.IsError = sdk.Bool(true)
	}
	blocks := m.Content.Blocks
	if m.Content.IsText {
		blocks = []message.Block{{Type: message.BlockText, Text: m.Content.Text}}
	}
	for _, b := range blocks {
		block, err := part(b)
		switch {
		case err != nil:
			return fmt.Errorf("message %d: %w", i, err)
		case block == nil:
		case block.OfImage != nil && m.IsError:
			open.images = append(open.images, block)
		case block.OfImage != nil:
			result.Content = append(result.Content, sdk.ToolResultBlockParamContentUnion{OfImage: block.OfImage})
		default:
			result.Content = append(result.Content, sdk.ToolResultBlockParamContentUnion{OfText: block.OfText})
		}
	}
	if m.IsError && len(result.Content) == 0 {
		result.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: imageOnly}}}
	}
	block := sdk.ContentBlockParamUnion{OfToolResult: &result}
	open.results = append(open.results, &block)
	c.last[i] = &block
	return nil
}
