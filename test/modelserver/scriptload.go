package modelserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// ErrScript is returned when a model script is not in the form of docs/format/modelscript.md.
var ErrScript = errors.New("invalid model script")

// ParseYAML reads model scripts: one or several YAML documents, each a script or a list of scripts. Unknown and
// repeated keys are refused. A prefix is put before every model id, joined with a dash; an id that has it already stays.
func ParseYAML(raw []byte, prefix string) ([]Script, error) {
	var scripts []Script
	seen := map[string]bool{}
	for i, doc := range splitDocuments(raw) {
		parsed, err := parseDocument(doc)
		if err != nil {
			return nil, fmt.Errorf("%w: document %d: %w", ErrScript, i+1, err)
		}
		for _, s := range parsed {
			s.Model = prefixed(prefix, s.Model)
			if err := s.validate(); err != nil {
				return nil, fmt.Errorf("%w: document %d: model %q: %w", ErrScript, i+1, s.Model, err)
			}
			if seen[s.Model] {
				return nil, fmt.Errorf("%w: document %d: model %q is defined twice", ErrScript, i+1, s.Model)
			}
			seen[s.Model] = true
			scripts = append(scripts, s)
		}
	}
	if len(scripts) == 0 {
		return nil, fmt.Errorf("%w: no script in it", ErrScript)
	}
	return scripts, nil
}

func prefixed(prefix, model string) string {
	if prefix == "" || model == "" {
		return model
	}
	if !strings.HasSuffix(prefix, "-") {
		prefix += "-"
	}
	if strings.HasPrefix(model, prefix) {
		return model
	}
	return prefix + model
}

// splitDocuments cuts at lines that start with the YAML document marker, which no scalar may contain at column 0.
func splitDocuments(raw []byte) [][]byte {
	var docs [][]byte
	var doc []byte
	for line := range bytes.Lines(raw) {
		text := bytes.TrimRight(line, "\r\n")
		if rest, ok := bytes.CutPrefix(text, []byte("---")); ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t') {
			docs = append(docs, doc)
			doc = append([]byte{}, rest...)
			doc = append(doc, '\n')
			continue
		}
		doc = append(doc, line...)
	}
	return append(docs, doc)
}

func parseDocument(doc []byte) ([]Script, error) {
	raw, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, err
	}
	if err := checkCase(raw); err != nil {
		return nil, err
	}
	raw = bytes.TrimSpace(raw)
	switch {
	case bytes.Equal(raw, []byte("null")):
		return nil, nil
	case raw[0] == '[':
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, err
		}
		var scripts []Script
		for i, item := range list {
			s, err := parseScript(item)
			if err != nil {
				return nil, fmt.Errorf("script %d: %w", i+1, err)
			}
			scripts = append(scripts, s)
		}
		return scripts, nil
	}
	s, err := parseScript(raw)
	if err != nil {
		return nil, err
	}
	return []Script{s}, nil
}

// scriptKeys are all keys of scripts. The JSON decoder would take them in any case.
var scriptKeys = []string{
	"model", "tokenizer", "window", "windowIncludesOutput", "maxTokens", "auth", "apiKey", "thinking", "images", "chatReasoning",
	"allowFields", "record", "replies",
	"match", "repeat", "content", "echo", "stopReason", "usage", "chunks", "delay", "latency", "headers", "error", "drop",
	"truncate", "hang", "raw",
	"lastUser", "hasToolResult", "system", "turn", "step",
	"redacted", "text", "toolCall", "refusal", "id", "name", "arguments", "rawArguments", "times",
	"input", "output", "cacheRead", "cacheWrite", "reasoning", "first", "perChunk",
	"status", "type", "code", "message", "retryAfter", "afterChunks", "contentType", "body",
}

// checkCase refuses keys that differ from a known one only in their case, except where keys are the author's own.
func checkCase(raw []byte) error {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	var walk func(v any) error
	walk = func(v any) error {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				if err := walk(item); err != nil {
					return err
				}
			}
		case object:
			for key, value := range v {
				if err := keyCase(key); err != nil {
					return err
				}
				if key == "arguments" || key == "headers" {
					continue
				}
				if err := walk(value); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return walk(v)
}

func keyCase(key string) error {
	at := slices.IndexFunc(scriptKeys, func(k string) bool { return strings.EqualFold(k, key) })
	if at < 0 || scriptKeys[at] == key {
		return nil
	}
	return fmt.Errorf("unknown field %q; is it %q?", key, scriptKeys[at])
}

// parseScript decodes reply by reply, so that an error names the reply it is in.
func parseScript(raw []byte) (Script, error) {
	var outer struct {
		Script
		Replies []json.RawMessage `json:"replies"`
	}
	if err := strictJSON(raw, &outer); err != nil {
		return Script{}, err
	}
	s := outer.Script
	for i, item := range outer.Replies {
		var r Reply
		if err := strictJSON(item, &r); err != nil {
			return Script{}, fmt.Errorf("replies[%d]: %w", i, err)
		}
		unescapeArguments(&r)
		s.Replies = append(s.Replies, r)
	}
	return s, nil
}

// unescapeArguments undoes the HTML escapes that the way from YAML to JSON puts into strings.
func unescapeArguments(r *Reply) {
	for _, p := range r.Content {
		if p.ToolCall == nil || p.ToolCall.Arguments == nil {
			continue
		}
		if args, err := parseObject(p.ToolCall.Arguments); err == nil {
			p.ToolCall.Arguments = encode(args)
		}
	}
}

func strictJSON(raw []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("bytes after the value")
	}
	return nil
}

func (s *Script) validate() error {
	if s.Model == "" {
		return errors.New("model is missing")
	}
	if s.Window < 0 || s.MaxTokens < 0 {
		return errors.New("window and maxTokens must not be negative")
	}
	if s.Tokenizer != "" && s.Tokenizer != TokenizerO200k {
		return fmt.Errorf("tokenizer must be %s, not %q", TokenizerO200k, s.Tokenizer)
	}
	if s.Auth != "" && s.Auth != AuthKey {
		return fmt.Errorf("auth must be %q, not %q", AuthKey, s.Auth)
	}
	if !slices.Contains([]string{"", ThinkingNone, ThinkingFixed, ThinkingAdaptive}, s.Thinking) {
		return fmt.Errorf("thinking must be none, fixed or adaptive, not %q", s.Thinking)
	}
	if !slices.Contains([]string{"", ChatReasoningContent, ChatReasoning, ChatReasoningNone}, s.ChatReasoning) {
		return fmt.Errorf("chatReasoning must be reasoning_content, reasoning or none, not %q", s.ChatReasoning)
	}
	if len(s.Replies) == 0 {
		return errors.New("replies is missing")
	}
	for i := range s.Replies {
		r := &s.Replies[i]
		if err := r.validate(); err != nil {
			return fmt.Errorf("replies[%d]: %w", i, err)
		}
		if r.Repeat && r.Match == nil && i < len(s.Replies)-1 {
			return fmt.Errorf("replies[%d] repeats and matches everything, so the replies after it are never used", i)
		}
	}
	return nil
}

func (r *Reply) validate() error {
	kinds := r.kinds()
	if len(kinds) > 1 {
		return fmt.Errorf("%s exclude each other", strings.Join(kinds, " and "))
	}
	if n := len(r.cuts()); n > 1 {
		return errors.New("only one of drop, truncate, error.afterChunks and hang.afterChunks may be set")
	}
	if len(r.cuts()) == 1 && r.cuts()[0] < 0 || r.Chunks < 0 {
		return errors.New("chunks and afterChunks must not be negative")
	}
	if len(kinds) == 1 && len(r.cuts()) == 1 && kinds[0] != "content" && kinds[0] != "echo" {
		return fmt.Errorf("%s is not a stream that can be cut", kinds[0])
	}
	if r.Error != nil && r.Error.Status != 0 && (r.Error.Status < 400 || r.Error.Status > 599) {
		return fmt.Errorf("error.status must be between 400 and 599, not %d", r.Error.Status)
	}
	if r.Raw != nil && r.Raw.Status != 0 && (r.Raw.Status < 200 || r.Raw.Status > 599) {
		return fmt.Errorf("raw.status must be between 200 and 599, not %d", r.Raw.Status)
	}
	for i := range r.Content {
		if err := r.Content[i].validate(); err != nil {
			return fmt.Errorf("content[%d]: %w", i, err)
		}
	}
	return nil
}

// kinds lists what the reply is, in order of the alphabet; validate holds it to at most one.
func (r *Reply) kinds() []string {
	var kinds []string
	for kind, is := range map[string]bool{
		"content": r.Content != nil,
		"echo":    r.Echo,
		"raw":     r.Raw != nil,
		"error":   r.Error != nil && r.Error.AfterChunks == nil,
		"hang":    r.Hang != nil && r.Hang.AfterChunks == nil,
	} {
		if is {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// cuts lists the places at which the reply's stream is cut; validate holds it to at most one.
func (r *Reply) cuts() []int {
	var cuts []int
	if r.Drop != nil {
		cuts = append(cuts, r.Drop.AfterChunks)
	}
	if r.Truncate != nil {
		cuts = append(cuts, r.Truncate.AfterChunks)
	}
	if r.Error != nil && r.Error.AfterChunks != nil {
		cuts = append(cuts, *r.Error.AfterChunks)
	}
	if r.Hang != nil && r.Hang.AfterChunks != nil {
		cuts = append(cuts, *r.Hang.AfterChunks)
	}
	return cuts
}

func (p *Part) validate() error {
	set := 0
	for _, is := range []bool{p.Thinking != nil, p.Text != nil, p.ToolCall != nil, p.Refusal != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return errors.New("a part is exactly one of thinking, text, toolCall and refusal")
	}
	if p.Redacted && p.Thinking == nil {
		return errors.New("only thinking can be redacted")
	}
	if p.ToolCall == nil {
		return nil
	}
	if p.ToolCall.Name == "" {
		return errors.New("toolCall.name is missing")
	}
	if p.ToolCall.RawArguments != nil && p.ToolCall.Arguments != nil {
		return errors.New("toolCall.arguments and toolCall.rawArguments exclude each other")
	}
	args := bytes.TrimSpace(p.ToolCall.Arguments)
	if len(args) > 0 && args[0] != '{' {
		return errors.New("toolCall.arguments must be an object; rawArguments takes any text")
	}
	return nil
}
