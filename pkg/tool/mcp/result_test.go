package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
)

// picture is a PNG of the given size, as base64.
func picture(t testing.TB, width, height int) string {
	t.Helper()
	var buf bytes.Buffer
	if err := png.Encode(&buf, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(buf.Bytes())
}

func TestResultsBecomeContent(t *testing.T) {
	small, wide := picture(t, 2, 2), picture(t, maxImageSide+1, 1)
	textBlock := func(s string) message.Block { return message.Block{Type: message.BlockText, Text: s} }
	imageBlock := message.Block{Type: message.BlockImage, MediaType: "image/png", Data: small}
	cases := map[string]struct {
		result string
		want   message.Content
	}{
		"one text is plain text":        {`{"content":[{"type":"text","text":"a"}]}`, message.Text("a")},
		"two texts stay two blocks":     {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, message.Blocks(textBlock("a"), textBlock("b"))},
		"nothing says that it is empty": {`{"content":[]}`, message.Text(emptyResult)},
		"blank texts are left out":      {`{"content":[{"type":"text","text":" \n"},{"type":"text","text":""}]}`, message.Text(emptyResult)},
		"structured content alone is shown with exact numbers and order": {
			`{"content":[],"structuredContent":{"z":12345678901234567890,"a":1.50}}`, message.Text(`{"z":12345678901234567890,"a":1.50}`),
		},
		"structured content beside text is not shown": {`{"content":[{"type":"text","text":"a"}],"structuredContent":{"z":1}}`, message.Text("a")},
		"an image":                                 {`{"content":[{"type":"image","mimeType":"image/png","data":"` + small + `"}]}`, message.Blocks(imageBlock)},
		"an image with a wrong type declared":      {`{"content":[{"type":"image","mimeType":"image/jpeg","data":"` + small + `"}]}`, message.Blocks(imageBlock)},
		"an image of a kind that nobody takes":     {`{"content":[{"type":"image","mimeType":"image/svg+xml","data":"PHN2Zz48L3N2Zz4="}]}`, message.Text("[image image/svg+xml of 11 bytes: this kind is not passed on]")},
		"an image that cannot be decoded":          {`{"content":[{"type":"image","mimeType":"image/png","data":"***"}]}`, message.Text("[image image/png of 0 bytes: its base64 cannot be read]")},
		"an image that is damaged":                 {`{"content":[{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}]}`, message.Text("[image image/png of 8 bytes: it is damaged or larger than 8000 pixels]")},
		"an image that is too wide":                {`{"content":[{"type":"image","mimeType":"image/png","data":"` + wide + `"}]}`, message.Text(fmt.Sprintf("[image image/png of %d bytes: it is damaged or larger than 8000 pixels]", rawLen(wide)))},
		"an image of a failed call":                {`{"isError":true,"content":[{"type":"image","mimeType":"image/png","data":"` + small + `"}]}`, message.Text(fmt.Sprintf("[image image/png of %d bytes: results of failed calls hold text only]", rawLen(small)))},
		"audio":                                    {`{"content":[{"type":"audio","mimeType":"audio/wav","data":"AAAA"}]}`, message.Text("[audio audio/wav of 3 bytes: this kind is not passed on]")},
		"a resource link":                          {`{"content":[{"type":"resource_link","uri":"file:///a","name":"a","title":"A","mimeType":"text/plain","size":3,"description":"first"}]}`, message.Text("Resource link A: file:///a (text/plain), 3 bytes\nfirst")},
		"an embedded text":                         {`{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"hello"}}]}`, message.Text("Resource file:///a:\nhello")},
		"an embedded image":                        {`{"content":[{"type":"resource","resource":{"uri":"u","mimeType":"image/png","blob":"` + small + `"}}]}`, message.Blocks(textBlock("Resource u:"), imageBlock)},
		"an embedded binary":                       {`{"content":[{"type":"resource","resource":{"uri":"u","mimeType":"application/zip","blob":"AAAA"}}]}`, message.Text("[resource u application/zip of 3 bytes: binary content is not passed on]")},
		"a resource without content":               {`{"content":[{"type":"resource"}]}`, message.Text("[a resource without content]")},
		"an unknown kind of content":               {`{"content":[{"type":"hologram","x":1},{"type":"text","text":"a"}]}`, message.Blocks(textBlock(`[content of the unknown type "hologram"]`), textBlock("a"))},
		"content of a wrong shape":                 {`{"content":[{"type":"text","text":{"a":1}}]}`, message.Text("[content that cannot be read]")},
		"invalid UTF-8 becomes replacement runes":  {"{\"content\":[{\"type\":\"text\",\"text\":\"a\xff\xfeb\"}]}", message.Text("a\uFFFD\uFFFDb")},
		"lone surrogates become replacement runes": {`{"content":[{"type":"text","text":"a\ud800b"}]}`, message.Text("a\uFFFDb")},
		"credentials are blanked":                  {`{"content":[{"type":"text","text":"env: TOKEN=` + secret + `"}]}`, message.Text("env: TOKEN=[redacted]")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var r wireResult
			if err := json.Unmarshal([]byte(tc.result), &r); err != nil {
				t.Fatal(err)
			}
			c := converter{redact: newRedactor(ServerConfig{BearerToken: secret}), limit: 1000, imageBytes: 1 << 20, isError: r.IsError}
			got, cut := c.convert(r)
			if diff := cmp.Diff(tc.want, got); diff != "" || cut != nil {
				t.Errorf("cut %v, content (-want +got):\n%s", cut, diff)
			}
		})
	}
}

func rawLen(encoded string) int {
	raw, _ := base64.StdEncoding.DecodeString(encoded)
	return len(raw)
}

func TestLongResultsAreCutBetweenCharacters(t *testing.T) {
	long := strings.Repeat("é", 2000)
	cases := map[string]struct {
		texts []string
		bytes int64
	}{
		"one text":                {[]string{long}, 4000},
		"the second of two":       {[]string{"short", long}, 4005},
		"nothing of the third":    {[]string{long, long, "end"}, 8003},
		"too many small ones":     {strings.Split(strings.Repeat("x", 1000), ""), 1000},
		"one byte over the bound": {[]string{strings.Repeat("y", 1001)}, 1001},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var r wireResult
			for _, s := range tc.texts {
				raw, _ := json.Marshal(map[string]string{"type": "text", "text": s})
				r.Content = append(r.Content, raw)
			}
			at := -1
			c := converter{limit: 1000, imageBytes: 1 << 20, readOn: func(offset int) string { at = offset; return " Read on." }}
			content, cut := c.convert(r)
			if cut == nil || cut.Bytes != tc.bytes || cut.Limit != 1000 {
				t.Fatalf("facts %+v, want %d bytes and the limit", cut, tc.bytes)
			}
			all := content.Text
			for _, b := range content.Blocks {
				all += b.Text
			}
			kept, mark, found := strings.Cut(all, "\n\n[Cut: the first ")
			if shown := c.whole[:at]; c.whole != strings.Join(tc.texts, "\n") || strings.ReplaceAll(shown, "\n", "") != kept || !strings.HasSuffix(mark, "part. Read on.]") {
				t.Errorf("the whole has %d bytes, reading on from %d repeats or leaves out something; mark %q", len(c.whole), at, mark)
			}
			if !found || len(all) > 1000 || !utf8.ValidString(all) || strings.ContainsRune(all, utf8.RuneError) {
				t.Errorf("%d bytes, mark %t: %q", len(all), found, all)
			}
			if len(kept) != cut.Kept || !strings.HasPrefix(strings.Join(tc.texts, ""), kept) {
				t.Errorf("kept %d bytes, facts say %d", len(kept), cut.Kept)
			}
		})
	}
}

func TestDetails(t *testing.T) {
	cases := map[string]struct {
		in   details
		want string
	}{
		"nothing to tell":                        {details{}, ""},
		"structured content keeps its form":      {details{StructuredContent: json.RawMessage(`{"z":1.50,"a":12345678901234567890}`)}, `{"structuredContent":{"z":1.50,"a":12345678901234567890}}`},
		"structured content above the bound":     {details{StructuredContent: json.RawMessage(`"` + strings.Repeat("x", 200) + `"`)}, ""},
		"credentials in structured content":      {details{StructuredContent: json.RawMessage(`{"t":"` + secret + `"}`)}, `{"structuredContent":{"t":"[redacted]"}}`},
		"facts of a cut and of a second sending": {details{Truncated: &truncated{Bytes: 9, Kept: 3, Limit: 5}, Resent: "r", HTTPStatus: 502}, `{"truncated":{"bytes":9,"kept":3,"limit":5},"resent":"r","httpStatus":502}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.in.encode(newRedactor(ServerConfig{BearerToken: secret}), 100)
			if string(got) != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestSecretsWithQuotesAreBlankedInJSON(t *testing.T) {
	cfg := ServerConfig{Headers: []Header{{Name: "X", Value: `pass"word\1`, Secret: true}, {Name: "Y", Value: "not-a-secret"}, {Name: "Z", Value: "short", Secret: true}}}
	r := newRedactor(cfg)
	quoted, _ := json.Marshal(`pass"word\1`)
	for in, want := range map[string]string{
		`a pass"word\1 b`: "a [redacted] b", string(quoted): `"[redacted]"`, "not-a-secret short": "not-a-secret short",
	} {
		if got := r.text(in); got != want {
			t.Errorf("text(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzConvert(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"a\ud800"}],"structuredContent":{"a":1}}`), 200)
	f.Add([]byte(`{"content":[{"type":"image","data":"iVBORw0KGgo="},{"type":"resource","resource":{"uri":"u","blob":"AAAA"}}],"isError":true}`), 10)
	f.Add([]byte("{\"content\":[{\"type\":\"text\",\"text\":\"\xff\xff\xff\"}]}"), 1)
	f.Fuzz(func(t *testing.T, raw []byte, limit int) {
		var r wireResult
		if limit < 200 || limit > 1<<20 || json.Unmarshal(raw, &r) != nil {
			return
		}
		c := converter{limit: limit, imageBytes: 1 << 10, isError: r.IsError}
		content, _ := c.convert(r)
		size := len(content.Text)
		for _, b := range content.Blocks {
			size += len(b.Text)
			if b.Type == message.BlockText && strings.TrimSpace(b.Text) == "" {
				t.Errorf("a blank block in %q", raw)
			}
		}
		encoded := message.Encode(message.Message{Role: message.RoleToolResult, Content: content})
		if size > limit || !utf8.Valid(encoded) {
			t.Errorf("%d bytes of text for a limit of %d, valid UTF-8 %t", size, limit, utf8.Valid(encoded))
		}
		if _, err := message.Decode(encoded); err != nil {
			t.Errorf("the content cannot be stored: %v", err)
		}
	})
}
