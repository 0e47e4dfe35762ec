package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// trajectoryPath is the page that shows the session's trajectory.
const trajectoryPath = "/projects/" + namespace + "/sessions/" + sessionName + "/trajectory"

// viewer asks the viewer's API as somebody who holds a token.
type viewer struct {
	base, token, session string
}

// message is a message of the conversation or of a model input.
type message struct {
	Role         string
	Content      content
	ErrorMessage string
}

// content is a text, or blocks of which the texts count here.
type content []block

type block struct {
	Type, Text, Thinking, Name string
	Arguments                  json.RawMessage
}

// line is what a reader sees of a block.
func (b block) line() string {
	switch {
	case b.Text != "":
		return b.Text
	case b.Thinking != "":
		return "(thinks) " + b.Thinking
	case b.Type == "toolCall":
		return fmt.Sprintf("→ %s %s", b.Name, b.Arguments)
	}
	return ""
}

// UnmarshalJSON takes both forms of content.
func (c *content) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*c = content{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(raw, (*[]block)(c))
}

// calls says whether the message calls tools.
func (m message) calls() bool {
	return slices.ContainsFunc(m.Content, func(b block) bool { return b.Type == "toolCall" })
}

// text is all that a reader sees of a message but its thinking, which may be left out of a later input.
func (m message) text() string {
	var parts []string
	for _, b := range m.Content {
		if b.Type != "thinking" {
			parts = append(parts, b.line())
		}
	}
	return strings.Join(parts, " ")
}

// get asks for a path and wants the status; it returns the header and the body. Without a token it asks as nobody.
func (v viewer) get(ctx context.Context, path string, want int) (http.Header, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+path, nil)
	if err != nil {
		return nil, nil, err
	}
	if v.token != "" {
		request.Header.Set("Authorization", "Bearer "+v.token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("GET %s: %w", path, err)
	}
	if response.StatusCode != want {
		return nil, nil, fmt.Errorf("GET %s: %s, want %d: %.300s", path, response.Status, want, body)
	}
	return response.Header, body, nil
}

func (v viewer) api(endpoint string) string {
	return "/api/sessions/" + url.PathEscape(v.session) + endpoint
}

func (v viewer) read(ctx context.Context, path string, into any) error {
	_, body, err := v.get(ctx, path, http.StatusOK)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// messages is the conversation of the session.
func (v viewer) messages(ctx context.Context) ([]message, error) {
	var page struct {
		Messages []struct{ Message message }
	}
	if err := v.read(ctx, v.api("/messages"), &page); err != nil {
		return nil, err
	}
	out := make([]message, len(page.Messages))
	for i := range page.Messages {
		out[i] = page.Messages[i].Message
	}
	return out, nil
}

// entry is an entry of the trajectory.
type entry struct {
	ID, Type, Status string
	Run              struct{ Name string }
}

// trajectory is the index of the session's trajectory.
func (v viewer) trajectory(ctx context.Context) ([]entry, error) {
	var page struct {
		Entries []entry
		Notices []struct{ Code, Message string }
		Next    string
	}
	if err := v.read(ctx, v.api("/trajectory"), &page); err != nil {
		return nil, err
	}
	if len(page.Notices) > 0 || page.Next != "" {
		return nil, fmt.Errorf("the trajectory has notices %v or a next page %q", page.Notices, page.Next)
	}
	return page.Entries, nil
}

// input is a fixed model input, with the source of each message.
type input struct {
	Verified bool
	Messages []struct {
		Message message
		Source  struct{ Type string }
	}
}

// detail is the model input behind an entry.
func (v viewer) detail(ctx context.Context, id string) (input, error) {
	var page struct{ Input *input }
	if err := v.read(ctx, v.api("/trajectory/detail?id="+url.QueryEscape(id)), &page); err != nil {
		return input{}, err
	}
	if page.Input == nil {
		return input{}, fmt.Errorf("entry %s has no model input", id)
	}
	return *page.Input, nil
}

// export downloads everything and checks that it is whole; it returns the number of entries.
func (v viewer) export(ctx context.Context) (int, error) {
	_, body, err := v.get(ctx, v.api("/trajectory/export"), http.StatusOK)
	if err != nil {
		return 0, err
	}
	return checkExport(body)
}

// checkExport wants a header, entries, and a last line that tells their number and the digest of all before it.
func checkExport(body []byte) (int, error) {
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 16<<20)
	sum, entries := sha256.New(), 0
	for n := 0; lines.Scan(); n++ {
		var line struct {
			Type, SHA256 string
			Records      int
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return 0, fmt.Errorf("line %d of the export: %w", n+1, err)
		}
		switch {
		case line.Type == "complete":
			if line.Records != entries || line.SHA256 != hex.EncodeToString(sum.Sum(nil)) {
				return 0, fmt.Errorf("the export says that it has %d entries and digest %s; it has %d and %x", line.Records, line.SHA256, entries, sum.Sum(nil))
			}
			if lines.Scan() {
				return 0, fmt.Errorf("the export goes on after its end: %.80s", lines.Text())
			}
			return entries, lines.Err()
		case n == 0 && line.Type != "trajectory", n > 0 && line.Type != "entry":
			return 0, fmt.Errorf("line %d of the export has type %q", n+1, line.Type)
		case n > 0:
			entries++
		}
		sum.Write(lines.Bytes())
		sum.Write([]byte{'\n'})
	}
	return 0, fmt.Errorf("the export has no line of type complete: %w", lines.Err())
}

// asset is a script or style sheet that a page loads.
var asset = regexp.MustCompile(`<(?:script|link)[^>]* (?:src|href)="([^"]+)"`)

// page loads a page as a browser would, with its scripts and style sheets, and returns how many those are. The page
// itself needs no token.
func (v viewer) page(ctx context.Context, path string) (int, error) {
	nobody := viewer{base: v.base}
	header, body, err := nobody.get(ctx, path, http.StatusOK)
	if err != nil {
		return 0, err
	}
	if kind := header.Get("Content-Type"); !strings.HasPrefix(kind, "text/html") {
		return 0, fmt.Errorf("GET %s: content type %q, want a page", path, kind)
	}
	at, err := url.Parse(path)
	if err != nil {
		return 0, err
	}
	if base := baseElement.FindSubmatch(body); base != nil {
		if at, err = at.Parse(string(base[1])); err != nil {
			return 0, err
		}
	}
	found := asset.FindAllSubmatch(body, -1)
	for _, match := range found {
		target, err := at.Parse(string(match[1]))
		if err != nil {
			return 0, err
		}
		header, _, err := nobody.get(ctx, target.Path, http.StatusOK)
		if err != nil {
			return 0, err
		}
		if kind := header.Get("Content-Type"); strings.HasPrefix(kind, "text/html") {
			return 0, fmt.Errorf("GET %s: a page, want a script, style sheet or icon", target.Path)
		}
	}
	if len(found) == 0 {
		return 0, fmt.Errorf("the page %s loads nothing: %.200s", path, body)
	}
	return len(found), nil
}

// baseElement says what the page's addresses are relative to.
var baseElement = regexp.MustCompile(`<base href="([^"]+)"`)
