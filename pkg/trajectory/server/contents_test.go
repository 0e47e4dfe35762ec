package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// attachedSite serves a session with images and a result that was cut.
func attachedSite(t *testing.T) *site {
	t.Helper()
	told, err := story.Attached(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, func(o *Options) { o.Log, o.Store = told.Log, told.Store })
	s.story = told
	return s
}

// newest is the id of the last entry that is chosen.
func (s *site) newest(choose func(trajectory.Entry) bool) string {
	s.t.Helper()
	var index struct {
		Entries []trajectory.Entry `json:"entries"`
	}
	s.get(base+"/trajectory").decode(s.t, &index)
	id := ""
	for _, e := range index.Entries {
		if choose(e) {
			id = e.ID
		}
	}
	if id == "" {
		s.t.Fatal("there is no such entry")
	}
	return id
}

func ofType(kind trajectory.Type) func(trajectory.Entry) bool {
	return func(e trajectory.Entry) bool { return e.Type == kind }
}

func ofEvent(name string) func(trajectory.Entry) bool {
	return func(e trajectory.Entry) bool { return e.Event == name }
}

func TestAWholeTextInPages(t *testing.T) {
	s := attachedSite(t)
	path := base + "/trajectory/text?id=" + s.newest(ofType(trajectory.TypeTool))
	var text, cursor string
	pages := 0
	for {
		var page wholeText
		s.get(path+cursor).decode(t, &page)
		if page.Offset != len(text) || page.Size != len(story.WholeText) || len(page.Text) > textPage || !utf8.ValidString(page.Text) || page.Unavailable != "" {
			t.Fatalf("page %d: %d bytes from %d of %d", pages, len(page.Text), page.Offset, page.Size)
		}
		text += page.Text
		if pages++; page.Next == "" {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(page.Next)
	}
	if pages != 2 || text != story.WholeText {
		t.Errorf("%d bytes in %d pages, want %d in 2", len(text), pages, len(story.WholeText))
	}
}

// TestGoldenText holds the answer to what the page and other clients were told, but for the text itself.
func TestGoldenText(t *testing.T) {
	s := attachedSite(t)
	var page map[string]any
	s.get(base+"/trajectory/text?id="+s.newest(ofType(trajectory.TypeTool))).decode(t, &page)
	page["text"] = page["text"].(string)[:60]
	got, err := json.MarshalIndent(page, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "text.json")
	if *update {
		if err := os.WriteFile(file, append(got, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// TestTheWholeTextIsNoWayAroundRedaction compares with the beginning that the detail has.
func TestTheWholeTextIsNoWayAroundRedaction(t *testing.T) {
	s := attachedSite(t)
	id := s.newest(ofType(trajectory.TypeTool))
	var page wholeText
	s.get(base+"/trajectory/text?id="+id).decode(t, &page)
	var detail struct {
		Tool struct {
			Result struct {
				Content []struct {
					Text string `json:"text"`
				} `json:"content"`
			} `json:"result"`
		} `json:"tool"`
	}
	s.get(base+"/trajectory/detail?id="+id).decode(t, &detail)
	if shown := detail.Tool.Result.Content[0].Text; shown == "" || !strings.HasPrefix(page.Text, shown) {
		t.Errorf("the detail has %q, the whole begins with %.100q", shown, page.Text)
	}
}

func TestProblemsOfContents(t *testing.T) {
	s := attachedSite(t)
	tool, input, prompt := s.newest(ofType(trajectory.TypeTool)), s.newest(ofType(trajectory.TypeModelInput)), s.newest(ofEvent("message.user"))
	cursor := func(format string, args ...any) string {
		return "&cursor=" + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, format, args...))
	}
	mine := `{"v":1,"s":"` + story.Session + `","e":"` + tool + `","o":%d}`
	text, image := base+"/trajectory/text?id=", base+"/trajectory/image?id="
	for name, c := range map[string]struct {
		path   string
		status int
		code   string
	}{
		"nothing was cut":                       {text + input, 404, "notFound"},
		"a text of no entry":                    {text + "run.main.999", 404, "notFound"},
		"a text by digest":                      {text + "sha256:" + strings.Repeat("a", 64), 404, "notFound"},
		"a text without an entry":               {base + "/trajectory/text", 400, "badRequest"},
		"a text of an id that is too long":      {text + strings.Repeat("a", 513), 400, "badRequest"},
		"a digest beside the entry":             {text + tool + "&digest=x", 400, "badRequest"},
		"a cursor that is none":                 {text + tool + "&cursor=%25", 400, "badRequest"},
		"a cursor that is no JSON":              {text + tool + cursor("x"), 400, "badRequest"},
		"a cursor that is too long":             {text + tool + "&cursor=" + strings.Repeat("a", 4097), 400, "badRequest"},
		"a cursor from before the beginning":    {text + tool + cursor(mine, -1), 400, "badRequest"},
		"a cursor from behind the end":          {text + tool + cursor(mine, len(story.WholeText)+1), 400, "badRequest"},
		"a cursor from within a character":      {text + tool + cursor(mine, strings.Index(story.WholeText, "ï")+1), 400, "badRequest"},
		"a cursor of another entry":             {text + input + cursor(mine, 0), 410, "cursorExpired"},
		"a cursor of another session":           {text + tool + cursor(`{"v":1,"s":"x","e":"%s","o":0}`, tool), 410, "cursorExpired"},
		"no permission for a text":              {strings.Replace(text, "team", "other", 1) + tool, 403, "forbidden"},
		"no session with a text":                {strings.Replace(text, sessionName, "none", 1) + tool, 404, "notFound"},
		"no image there":                        {image + prompt + "&block=0", 404, "notFound"},
		"no such block":                         {image + prompt + "&block=7", 404, "notFound"},
		"no such message":                       {image + input + "&message=99&block=0", 404, "notFound"},
		"an image by digest":                    {image + "sha256:" + strings.Repeat("a", 64) + "&block=0", 404, "notFound"},
		"an image without a block":              {image + prompt, 400, "badRequest"},
		"a block that is no number":             {image + prompt + "&block=first", 400, "badRequest"},
		"a block below none":                    {image + prompt + "&block=-1", 400, "badRequest"},
		"a block that overflows":                {image + prompt + "&block=99999999999999999999", 400, "badRequest"},
		"a message that is no number":           {image + input + "&message=&block=0", 400, "badRequest"},
		"a message below none":                  {image + input + "&message=-1&block=0", 400, "badRequest"},
		"no permission for an image":            {strings.Replace(image, "team", "other", 1) + prompt + "&block=1", 403, "forbidden"},
		"a kind of image that the client picks": {image + prompt + "&block=1&type=text/html", 400, "badRequest"},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			a := s.get(c.path)
			var p problem
			a.decode(t, &p)
			if a.StatusCode != c.status || p.Code != c.code {
				t.Errorf("GET %s: %s %s, want %d %s", c.path, a.Status, a.body, c.status, c.code)
			}
		})
	}
}

func TestImagesAreServedAsWhatTheyAre(t *testing.T) {
	s := attachedSite(t)
	for _, place := range []string{
		s.newest(ofEvent("message.user")) + "&block=1", s.newest(ofType(trajectory.TypeTool)) + "&block=1",
		s.newest(ofType(trajectory.TypeModelInput)) + "&message=7&block=1",
	} {
		a := s.get(base + "/trajectory/image?id=" + place)
		if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "image/png" || !bytes.HasPrefix(a.body, []byte("\x89PNG")) {
			t.Fatalf("GET %s: %s %s", place, a.Status, a.body)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-cache", "Cross-Origin-Resource-Policy": "same-origin",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got := a.Header.Get(name); got != want {
				t.Errorf("GET %s: %s is %q, want %q", place, name, got, want)
			}
		}
		if again := s.get(base+"/trajectory/image?id="+place, "If-None-Match", a.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("GET %s again: %s", place, again.Status)
		}
	}
}

// TestWhatIsNoImageIsNotShown plants bytes that say they are something else than what the message declares.
func TestWhatIsNoImageIsNotShown(t *testing.T) {
	large, err := story.Picture(maxImageSide+1, 1)
	if err != nil {
		t.Fatal(err)
	}
	pixels, err := base64.StdEncoding.DecodeString(large.Data)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	for name, body := range map[string][]byte{
		"SVG":                   []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`),
		"HTML":                  []byte(`<!doctype html><script>alert(1)</script>`),
		"a page behind a title": []byte("GIF87 <html><script>alert(1)</script>"),
		"a bitmap":              append([]byte("BM"), make([]byte, 60)...),
		"text":                  []byte("no image"),
		"nothing":               {},
		"too many pixels":       pixels,
		"half a PNG":            pixels[:20],
		"a WebP without a size": []byte("RIFF\x10\x00\x00\x00WEBPVP8 \x00\x00\x00\x00"),
		"too many bytes":        append(bytes.Clone(pixels), make([]byte, maxImage)...),
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			_, err := s.story.Do(t.Context(), story.Run{
				Replies: []story.Reply{story.Says("", "Oh.")},
				Change: func(run *agent.Run) {
					run.Prompt.Content = message.Blocks(message.Block{Type: message.BlockImage, MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(body)})
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			a := s.get(base + "/trajectory/image?block=0&id=" + s.newest(ofEvent("message.user")))
			var p problem
			a.decode(t, &p)
			if a.StatusCode != http.StatusNotFound || p.Code != "notShown" {
				t.Errorf("%s: %.200s", a.Status, a.body)
			}
		})
	}
}

func TestContentsThatAreMissing(t *testing.T) {
	s := attachedSite(t)
	tool := s.newest(ofType(trajectory.TypeTool))
	prompt := s.newest(ofEvent("message.user"))
	s.get(base + "/trajectory/detail?id=" + tool) // so that what leads to them is known
	if err := s.story.Store.Purge(t.Context(), s.story.Scope()); err != nil {
		t.Fatal(err)
	}
	var page wholeText
	a := s.get(base + "/trajectory/text?id=" + tool)
	a.decode(t, &page)
	if a.StatusCode != http.StatusOK || page.Text != "" || page.Unavailable == "" || len(page.Notices) != 1 || page.Notices[0].Code != trajectory.CodeMissing || a.Header.Get("ETag") != "" {
		t.Errorf("the text: %s, ETag %q: %s", a.Status, a.Header.Get("ETag"), a.body)
	}
	var p problem
	a = s.get(base + "/trajectory/image?block=1&id=" + prompt)
	a.decode(t, &p)
	if a.StatusCode != http.StatusNotFound || p.Code != "objectMissing" || a.Header.Get("ETag") != "" {
		t.Errorf("the image: %s: %s", a.Status, a.body)
	}
}

func TestTheSizeOfAWebP(t *testing.T) {
	for name, c := range map[string]struct {
		file          string
		width, height int
	}{
		"with losses":    {"UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA", 1, 1},
		"without losses": {"UklGRiAAAABXRUJQVlA4TBMAAAAvAsABAAcQERGIiP4HAAAAAAAAAAAA", 3, 8},
		"with a canvas":  {"UklGRhYAAABXRUJQVlA4WAoAAAAQAAAAPx8AAQAA", 8000, 2},
		"of no kind":     {"UklGRhYAAABXRUJQVlA5WAoAAAAQAAAAPx8AAQAA", 0, 0},
	} {
		raw, err := base64.StdEncoding.DecodeString(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if kind := http.DetectContentType(raw); kind != "image/webp" && name != "of no kind" {
			t.Errorf("%s: the sample is %s", name, kind)
		}
		if width, height := webpSize(raw); width != c.width || height != c.height {
			t.Errorf("%s: %d by %d, want %d by %d", name, width, height, c.width, c.height)
		}
	}
}
