package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif"  // the formats whose size can be read
	_ "image/jpeg" // before a provider refuses it
	_ "image/png"
	"net/http"
	"strings"

	"github.com/agentloop/agentloop/pkg/message"
)

const (
	// maxBlocks bounds the blocks of one result, and maxImages those that are images.
	maxBlocks = 128
	maxImages = 16
	// maxImageSide is the largest width and height that model providers accept, in pixels.
	maxImageSide = 8000
	// emptyResult stands for a result without anything: an empty one is refused by some providers.
	emptyResult = "(The tool returned nothing.)"
)

// imageTypes are what all model providers take.
var imageTypes = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// wireResult is the result of tools/call as it is sent.
type wireResult struct {
	Content           []json.RawMessage `json:"content"`
	StructuredContent json.RawMessage   `json:"structuredContent"`
	IsError           bool              `json:"isError"`
	ResultType        string            `json:"resultType"`
	InputRequests     json.RawMessage   `json:"inputRequests"`
}

// wireContent has the members of every kind of content.
type wireContent struct {
	Type        string        `json:"type"`
	Text        string        `json:"text"`
	Data        string        `json:"data"`
	MIMEType    string        `json:"mimeType"`
	URI         string        `json:"uri"`
	Name        string        `json:"name"`
	Title       string        `json:"title"`
	Description string        `json:"description"`
	Size        *int64        `json:"size"`
	Resource    *wireResource `json:"resource"`
}

type wireResource struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType"`
	Text     *string `json:"text"`
	Blob     *string `json:"blob"`
}

// details are what is known of a result beside its content. They stay local.
type details struct {
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"`
	Truncated         *truncated      `json:"truncated,omitempty"`
	// Resent says why the call was sent a second time.
	Resent string `json:"resent,omitempty"`
	// HTTPStatus is the status of a failed exchange.
	HTTPStatus int `json:"httpStatus,omitempty"`
}

// truncated are the facts of a result that was cut: the text's bytes, how many were kept, and the bound.
type truncated struct {
	Bytes int64 `json:"bytes"`
	Kept  int   `json:"kept"`
	Limit int64 `json:"limit"`
}

// converter makes message content of a wire result.
type converter struct {
	redact     redactor
	limit      int
	imageBytes int
	isError    bool
	// readOn says how a model reads on from an offset; nil or empty when it cannot.
	readOn func(offset int) string

	blocks []message.Block
	images int
	// bytes counts text and decoded images, what was left out included.
	bytes   int64
	dropped bool
	// rest are the texts that were left out, and whole is all text of a result that was cut.
	rest  []string
	whole string
}

// convert fills content and says what had to be left out.
func (c *converter) convert(r wireResult) (message.Content, *truncated) {
	for _, raw := range r.Content {
		var item wireContent
		if json.Unmarshal(raw, &item) != nil {
			c.text("[content that cannot be read]")
			continue
		}
		c.item(item)
	}
	if len(c.blocks) == 0 && present(r.StructuredContent) {
		c.text(string(message.AppendRaw(nil, r.StructuredContent)))
	}
	cut := c.cut()
	switch {
	case len(c.blocks) == 0:
		return message.Text(emptyResult), cut
	case len(c.blocks) == 1 && c.blocks[0].Type == message.BlockText:
		return message.Text(c.blocks[0].Text), cut
	}
	return message.Blocks(c.blocks...), cut
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

func (c *converter) item(item wireContent) {
	switch item.Type {
	case "text":
		c.text(item.Text)
	case "image":
		c.image(item.MIMEType, item.Data)
	case "audio":
		c.omitted("audio", item.MIMEType, decodedLen(item.Data), "this kind is not passed on")
	case "resource_link":
		c.text(linkText(item))
	case "resource":
		c.resource(item.Resource)
	default:
		c.text(fmt.Sprintf("[content of the unknown type %q]", message.Beginning(item.Type, 64)))
	}
}

// text adds a text block; empty ones are refused by providers and say nothing.
func (c *converter) text(s string) {
	s = c.redact.text(s)
	c.bytes += int64(len(s))
	if strings.TrimSpace(s) == "" {
		return
	}
	if len(c.blocks) >= maxBlocks {
		c.dropped, c.rest = true, append(c.rest, s)
		return
	}
	c.blocks = append(c.blocks, message.Block{Type: message.BlockText, Text: s})
}

func (c *converter) omitted(kind, media string, size int, why string) {
	c.text(fmt.Sprintf("[%s %s of %d bytes: %s]", kind, message.Beginning(media, 64), size, why))
}

func (c *converter) resource(r *wireResource) {
	switch {
	case r == nil:
		c.text("[a resource without content]")
	case r.Text != nil:
		c.text(fmt.Sprintf("Resource %s:\n%s", r.URI, *r.Text))
	case r.Blob != nil && strings.HasPrefix(r.MIMEType, "image/"):
		c.text("Resource " + r.URI + ":")
		c.image(r.MIMEType, *r.Blob)
	case r.Blob != nil:
		c.omitted("resource "+r.URI, r.MIMEType, decodedLen(*r.Blob), "binary content is not passed on")
	default:
		c.text("Resource " + r.URI + " is empty.")
	}
}

func linkText(item wireContent) string {
	name := item.Title
	if name == "" {
		name = item.Name
	}
	text := fmt.Sprintf("Resource link %s: %s", name, item.URI)
	if item.MIMEType != "" {
		text += " (" + item.MIMEType + ")"
	}
	if item.Size != nil {
		text += fmt.Sprintf(", %d bytes", *item.Size)
	}
	if item.Description != "" {
		text += "\n" + item.Description
	}
	return text
}

// image adds an image block if every provider will take it. One that a provider refuses would be refused again with
// each later request of the session. The type is what the bytes say, whatever the server declares.
func (c *converter) image(declared, data string) {
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		c.omitted("image", declared, decodedLen(data), "its base64 cannot be read")
		return
	}
	media := http.DetectContentType(raw)
	why := ""
	switch {
	case !imageTypes[media]:
		why = "this kind is not passed on"
	case c.isError:
		why = "results of failed calls hold text only"
	case c.images >= maxImages || len(c.blocks) >= maxBlocks:
		why = "the result has too many parts"
	case len(raw) > c.imageBytes:
		why = "it is too large"
	case !viewable(media, raw):
		why = fmt.Sprintf("it is damaged or larger than %d pixels", maxImageSide)
	}
	if why != "" {
		c.omitted("image", declared, len(raw), why)
		return
	}
	c.images++
	c.imageBytes -= len(raw)
	c.bytes += int64(len(raw))
	c.blocks = append(c.blocks, message.Block{Type: message.BlockImage, MediaType: media, Data: base64.StdEncoding.EncodeToString(raw)})
}

func viewable(media string, raw []byte) bool {
	if media == "image/webp" {
		return true // the standard library cannot read its size
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(raw))
	return err == nil && config.Width > 0 && config.Height > 0 && config.Width <= maxImageSide && config.Height <= maxImageSide
}

func decodedLen(data string) int { return len(data) / 4 * 3 }

// cut bounds the texts together, the mark included: what comes first stays.
func (c *converter) cut() *truncated {
	total := 0
	for _, b := range c.blocks {
		total += len(b.Text)
	}
	if total <= c.limit && !c.dropped {
		return nil
	}
	c.whole = c.allText()
	mark := func(kept, offset int) string {
		return fmt.Sprintf("\n\n[Cut: the first %d of %d bytes are shown. Ask for less, or for a part.%s]", kept, c.bytes, c.hint(offset))
	}
	left := max(0, min(total, c.limit-len(mark(total, len(c.whole)))))
	kept, offset, cut := 0, 0, false
	var blocks []message.Block
	for _, b := range c.blocks {
		if b.Type == message.BlockText {
			whole := len(b.Text)
			b.Text = message.Beginning(b.Text, left)
			kept, left = kept+len(b.Text), left-len(b.Text)
			if !cut {
				offset += len(b.Text)
			}
			if len(b.Text) < whole {
				left, cut = 0, true // what follows a cut is not shown, even if a few bytes of it would fit
			} else if !cut {
				offset++ // the line break between two texts
			}
			if b.Text == "" {
				continue
			}
		}
		blocks = append(blocks, b)
	}
	if last := len(blocks) - 1; last >= 0 && blocks[last].Type == message.BlockText {
		blocks[last].Text += mark(kept, offset)
	} else {
		blocks = append(blocks, message.Block{Type: message.BlockText, Text: strings.TrimLeft(mark(kept, offset), "\n")})
	}
	c.blocks = blocks
	return &truncated{Bytes: c.bytes, Kept: kept, Limit: int64(c.limit)}
}

// hint says how to read on.
func (c *converter) hint(offset int) string {
	if c.readOn == nil {
		return ""
	}
	return c.readOn(offset)
}

// allText is every text of the result, a line break between two of them.
func (c *converter) allText() string {
	var texts []string
	for _, b := range c.blocks {
		if b.Type == message.BlockText {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(append(texts, c.rest...), "\n")
}

// encode is the details' JSON, nil when there is nothing to tell. Structured content above the bound is left out.
func (d details) encode(redact redactor, limit int) json.RawMessage {
	if !present(d.StructuredContent) || len(d.StructuredContent) > limit {
		d.StructuredContent = nil
	}
	if d.StructuredContent == nil && d.Truncated == nil && d.Resent == "" && d.HTTPStatus == 0 {
		return nil
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return nil
	}
	raw = []byte(redact.text(string(raw)))
	if !json.Valid(raw) {
		return nil
	}
	return raw
}
