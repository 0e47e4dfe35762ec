package trajectory_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

func attached(t *testing.T) *story.Story {
	t.Helper()
	s, err := story.Attached(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newest is the id of the last entry that is chosen.
func newest(t *testing.T, ix *trajectory.Index, choose func(*trajectory.Entry) bool) string {
	t.Helper()
	id := ""
	for _, e := range page(t, ix, "", 1000).Entries {
		if choose(e) {
			id = e.ID
		}
	}
	if id == "" {
		t.Fatal("there is no such entry")
	}
	return id
}

func ofType(kind trajectory.Type) func(*trajectory.Entry) bool {
	return func(e *trajectory.Entry) bool { return e.Type == kind }
}

func ofEvent(name string) func(*trajectory.Entry) bool {
	return func(e *trajectory.Entry) bool { return e.Event == name }
}

func TestTheWholeTextOfAResultThatWasCut(t *testing.T) {
	s := attached(t)
	r, ix := read(t, s)
	id := newest(t, ix, ofType(trajectory.TypeTool))
	d := detail(t, r, ix, id)
	if d.Tool.Whole == nil || d.Tool.Whole.Size != int64(len(story.WholeText)) {
		t.Fatalf("the detail says that the whole is %+v", d.Tool.Whole)
	}
	text, notice, err := r.WholeText(t.Context(), ix, id)
	if err != nil || notice != nil || text != story.WholeText {
		t.Errorf("%d bytes, %+v, %v; want %d bytes", len(text), notice, err, len(story.WholeText))
	}
	for name, other := range map[string]struct {
		id   string
		want error
	}{
		"an input":                     {newest(t, ix, ofType(trajectory.TypeModelInput)), trajectory.ErrNoText},
		"a tool's result that was not": {newest(t, ix, ofType(trajectory.TypeMCP)), trajectory.ErrNoText},
		"no entry":                     {"run.main.999", trajectory.ErrNoEntry},
		"the digest of the text":       {d.Tool.Whole.Digest.String(), trajectory.ErrNoEntry},
	} {
		if text, notice, err := r.WholeText(t.Context(), ix, other.id); text != "" || notice != nil || !errors.Is(err, other.want) {
			t.Errorf("%s: %d bytes, %+v, %v", name, len(text), notice, err)
		}
	}
}

func TestAWholeTextThatCannotBeRead(t *testing.T) {
	away := errors.New("connection refused")
	for name, c := range map[string]struct {
		fault error
		code  trajectory.Code
	}{
		"missing": {cas.ErrNotFound, trajectory.CodeMissing},
		"damaged": {cas.ErrCorrupt, trajectory.CodeCorrupt},
		"away":    {away, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := attached(t)
			r, ix := read(t, s)
			id := newest(t, ix, ofType(trajectory.TypeTool))
			s.Store = &faulty{Store: s.Store, errs: map[cas.Digest]error{detail(t, r, ix, id).Tool.Whole.Digest: c.fault}}
			r, ix = read(t, s)
			text, notice, err := r.WholeText(t.Context(), ix, id)
			switch {
			case c.code == "":
				if !errors.Is(err, away) {
					t.Errorf("a store that does not answer gives %v", err)
				}
			case err != nil || text != "" || notice == nil || notice.Code != c.code || notice.EntryID != id:
				t.Errorf("%q, %+v, %v", text, notice, err)
			}
		})
	}
}

// TestAWholeTextWhoseRecordIsGone asks for a text that only the record names.
func TestAWholeTextWhoseRecordIsGone(t *testing.T) {
	h := newHand(t)
	h.log.add(t, main, ev(runevent.TypeToolCall, in("r1", "a"), call("1")))
	h.log.add(t, main, ev(runevent.TypeToolResult, in("r1", "a"), call("1"), func(e *runevent.Event) {
		e.Body, e.Whole = []byte(`{"role":"toolResult"}`), &cas.Ref{Digest: cas.Of([]byte("all of it")), Size: 9}
	}))
	ix := h.index()
	h.log.streams[main] = h.log.streams[main][:1]
	_, notice, err := h.r.WholeText(t.Context(), ix, "run.main.1")
	if err != nil || notice == nil || notice.Code != trajectory.CodeGap || notice.From != 2 {
		t.Errorf("%+v, %v", notice, err)
	}
}

func TestImages(t *testing.T) {
	s := attached(t)
	r, ix := read(t, s)
	input := newest(t, ix, ofType(trajectory.TypeModelInput))
	prompt, result := -1, -1
	for _, m := range detail(t, r, ix, input).Input.Messages {
		decoded, err := message.Decode(m.Message)
		if err != nil || len(decoded.Content.Blocks) < 2 || decoded.Content.Blocks[1].Ref == nil {
			continue
		}
		if decoded.Role == message.RoleUser {
			prompt = m.Index
		} else {
			result = m.Index
		}
	}
	const limit = 1 << 20
	id := func(choose func(*trajectory.Entry) bool) string { return newest(t, ix, choose) }
	for name, c := range map[string]struct {
		id             string
		message, block int
		limit          int64
		want           error
	}{
		"of a prompt":                      {id(ofEvent("message.user")), -1, 1, limit, nil},
		"of a tool's result":               {id(ofType(trajectory.TypeTool)), -1, 1, limit, nil},
		"of a prompt within an input":      {input, prompt, 1, limit, nil},
		"of a result within an input":      {input, result, 1, limit, nil},
		"a block of text":                  {input, prompt, 0, limit, trajectory.ErrNoImage},
		"a block that is not there":        {input, prompt, 2, limit, trajectory.ErrNoImage},
		"a message that is not there":      {input, 99, 1, limit, trajectory.ErrNoImage},
		"an input without a message":       {input, -1, 1, limit, trajectory.ErrNoImage},
		"one message of a prompt":          {id(ofEvent("message.user")), 0, 1, limit, trajectory.ErrNoImage},
		"of a response without one":        {id(ofType(trajectory.TypeModelOutput)), -1, 0, limit, trajectory.ErrNoImage},
		"of an entry without a message":    {id(ofEvent("run.finished")), -1, 0, limit, trajectory.ErrNoImage},
		"one of more bytes than are shown": {id(ofEvent("message.user")), -1, 1, 10, trajectory.ErrTooLarge},
		"of no entry":                      {"run.main.999", -1, 1, limit, trajectory.ErrNoEntry},
	} {
		t.Run(name, func(t *testing.T) {
			data, notice, err := r.Image(t.Context(), ix, c.id, trajectory.ImagePlace{Message: c.message, Block: c.block}, c.limit)
			if !errors.Is(err, c.want) || notice != nil {
				t.Fatalf("%+v, %v", notice, err)
			}
			if shown := http.DetectContentType(data) == "image/png"; shown != (c.want == nil) {
				t.Errorf("got %d bytes: %q", len(data), data)
			}
		})
	}
}

func TestImagesThatCannotBeRead(t *testing.T) {
	s := attached(t)
	r, ix := read(t, s)
	prompt := newest(t, ix, ofEvent("message.user"))
	decoded, err := message.Decode(detail(t, r, ix, prompt).Message)
	if err != nil {
		t.Fatal(err)
	}
	image, err := cas.ParseDigest(decoded.Content.Blocks[1].Ref.Digest)
	if err != nil {
		t.Fatal(err)
	}
	input := newest(t, ix, ofType(trajectory.TypeModelInput))
	snapshot := detail(t, r, ix, input).Input.ContextRef.Digest
	s.Store = &faulty{Store: s.Store, errs: map[cas.Digest]error{image: cas.ErrCorrupt, snapshot: cas.ErrNotFound}}
	r, ix = read(t, s)
	for name, c := range map[string]struct {
		id    string
		place trajectory.ImagePlace
		code  trajectory.Code
	}{
		"its bytes are others":     {prompt, trajectory.ImagePlace{Message: -1, Block: 1}, trajectory.CodeCorrupt},
		"what leads to it is gone": {input, trajectory.ImagePlace{Message: 0, Block: 1}, trajectory.CodeMissing},
	} {
		data, notice, err := r.Image(t.Context(), ix, c.id, c.place, 1<<20)
		if err != nil || data != nil || notice == nil || notice.Code != c.code || notice.EntryID != c.id {
			t.Errorf("%s: %d bytes, %+v, %v", name, len(data), notice, err)
		}
	}
}
