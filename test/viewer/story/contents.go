package story

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"strings"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
)

// WholeText is all of the text of the result that Attached cuts: more than a mebibyte, of characters of one to four bytes.
var WholeText = strings.Repeat("line of a long log: naïve, 日本, 🙂\n", 40_000)

// Attached is the sample with a third run: its prompt and a tool's result have an image, and that result's text was cut.
func Attached(ctx context.Context) (*Story, error) {
	s, err := Sample(ctx)
	if err != nil {
		return nil, err
	}
	picture, err := Picture(4, 3)
	if err != nil {
		return nil, err
	}
	result := tool.Result{Content: message.Blocks(message.Block{Type: message.BlockText, Text: message.Beginning(WholeText, 100)}, picture), Whole: WholeText}
	_, err = s.Do(ctx, Run{
		Tools: []tool.Definition{Tool("tail", "")}, Results: map[string]tool.Result{"tail": result},
		Replies: []Reply{Calls("tail", `{"lines":40000}`), Says("", "It is a long log.")},
		Change: func(run *agent.Run) {
			run.Prompt.Content = message.Blocks(message.Block{Type: message.BlockText, Text: "What is this?"}, picture)
			run.Config.Model.Images = true
		},
	})
	if err != nil {
		return nil, fmt.Errorf("third run: %w", err)
	}
	return s, nil
}

// Picture is a block with a PNG image of one colour.
func Picture(width, height int) (message.Block, error) {
	var raw bytes.Buffer
	if err := png.Encode(&raw, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		return message.Block{}, err
	}
	return message.Block{Type: message.BlockImage, MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(raw.Bytes())}, nil
}
