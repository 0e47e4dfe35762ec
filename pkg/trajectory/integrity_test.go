package trajectory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// codes are notices in short.
func codes(notices []trajectory.Notice) []string {
	out := []string{}
	for _, n := range notices {
		at := string(n.Code)
		if n.From > 0 {
			at += " " + n.Stream + " " + string(rune('0'+n.From)) + "-" + string(rune('0'+n.To))
		}
		if n.EntryID != "" {
			at += " " + n.EntryID
		}
		out = append(out, at)
	}
	return out
}

func TestIntegrityOfTheLog(t *testing.T) {
	cases := map[string]struct {
		damage  func(l *handLog)
		notices []string
		events  []string
	}{
		"nothing": {func(*handLog) {}, []string{}, []string{"run.started", "message.user", "tool.call", "run.finished"}},
		"a lost record": {
			func(l *handLog) { l.streams[main] = append(l.streams[main][:1:1], l.streams[main][2:]...) },
			[]string{"sequenceGap run/main 2-2"}, []string{"run.started", "tool.call", "run.finished"},
		},
		"a lost beginning": {
			func(l *handLog) { l.streams[main] = l.streams[main][2:] },
			[]string{"sequenceGap run/main 1-2"}, []string{"tool.call", "run.finished"},
		},
		"a replaced record": {
			func(l *handLog) {
				old := l.streams[main][1]
				raw := bytes.Replace(old.Raw, []byte(`"createdAt":"2026`), []byte(`"createdAt":"2025`), 1)
				l.streams[main][1] = runevent.Record{Stream: main, Head: runevent.HeadOf(2, old.Head.Position, raw), Raw: raw}
			},
			[]string{"brokenLink run/main 3-3 run.main.3"}, []string{"run.started", "message.user", "tool.call", "run.finished"},
		},
		"bytes that are no record": {
			func(l *handLog) {
				raw := []byte(`{"half":`)
				l.streams[main][1] = runevent.Record{Stream: main, Head: runevent.HeadOf(2, 2, raw), Raw: raw}
			},
			[]string{"damagedRecord run/main 2-2", "brokenLink run/main 3-3 run.main.3"}, []string{"run.started", "tool.call", "run.finished"},
		},
		"a record in the place of another": {
			func(l *handLog) {
				wrong := l.streams[main][2].Raw
				l.streams[main][1] = runevent.Record{Stream: main, Head: runevent.HeadOf(2, 2, wrong), Raw: wrong}
			},
			[]string{"damagedRecord run/main 2-2", "brokenLink run/main 3-3 run.main.3"}, []string{"run.started", "tool.call", "run.finished"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHand(t)
			for _, event := range []runevent.Event{
				ev(runevent.TypeRunStarted), ev(runevent.TypeMessageUser), ev(runevent.TypeToolCall, in("r", "a"), call("1")), ev(runevent.TypeRunFinished),
			} {
				h.log.add(t, main, event)
			}
			c.damage(h.log)
			ix := h.index()
			var events []string
			for _, e := range page(t, ix, "", 100).Entries {
				events = append(events, e.Event)
			}
			if diff := cmp.Diff(c.notices, codes(ix.Notices)) + cmp.Diff(c.events, events); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRecordsOfANewerFormat(t *testing.T) {
	for name, change := range map[string]func(raw string) string{
		"an unknown type": func(raw string) string {
			return strings.Replace(raw, `"type":"message.user"`, `"type":"message.robot"`, 1)
		},
		"a higher version": func(raw string) string {
			return strings.Replace(raw, `"v":1,"type":"message.user"`, `"v":7,"type":"message.user","runName":{"new":"shape"}`, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHand(t)
			h.log.add(t, main, ev(runevent.TypeRunStarted))
			old := h.log.add(t, main, ev(runevent.TypeMessageUser))
			raw := change(string(old.Raw))
			h.log.streams[main] = h.log.streams[main][:1]
			h.log.put(main, 2, []byte(raw))
			h.log.add(t, main, ev(runevent.TypeRunFinished))
			ix := h.index()
			if diff := cmp.Diff([]string{"unknownRecord run/main 2-2 run.main.2"}, codes(ix.Notices)); diff != "" {
				t.Errorf("notices (-want +got):\n%s", diff)
			}
			e := page(t, ix, "", 100).Entries[1]
			if e.Type != trajectory.TypeUnknown || e.Hidden {
				t.Errorf("the entry is %+v, want it listed as unknown", e)
			}
			d, err := h.r.Detail(t.Context(), ix, e.ID, 0)
			if err != nil || len(d.Events) != 1 || !json.Valid(d.Events[0].Event) || len(d.Notices) != 1 {
				t.Errorf("detail is %+v, %v; want its event and its notice", d, err)
			}
		})
	}
}

func TestAStreamThatBecameShorter(t *testing.T) {
	h := newHand(t)
	for range 4 {
		h.log.add(t, main, ev(runevent.TypeRunStarted))
	}
	whole := h.index()
	h.log.streams[main] = h.log.streams[main][:2]
	if err := h.r.Refresh(t.Context(), h.b); !errors.Is(err, trajectory.ErrRewritten) {
		t.Fatalf("refresh: %v, want ErrRewritten", err)
	}
	h.b = h.b.Successor()
	ix := h.index()
	if diff := cmp.Diff([]string{"truncatedStream run/main 3-4"}, codes(ix.Notices)); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	if ix.Counts.Entries != 2 {
		t.Errorf("%d entries are left, want 2", ix.Counts.Entries)
	}
	old := page(t, whole, "", 100).Cursor
	if _, err := ix.Page(old, 100); !errors.Is(err, trajectory.ErrCursorExpired) {
		t.Errorf("a cursor of the longer stream: %v, want ErrCursorExpired", err)
	}
	delete(h.log.streams, main)
	if err := h.r.Refresh(t.Context(), h.b); !errors.Is(err, trajectory.ErrRewritten) {
		t.Errorf("a stream that is gone: %v, want ErrRewritten", err)
	}
}

func TestAStreamShorterThanWhatIsKnown(t *testing.T) {
	h := newHand(t)
	h.log.add(t, main, ev(runevent.TypeRunStarted))
	h.b.Expect(main, 3)
	if diff := cmp.Diff([]string{"truncatedStream run/main 2-3"}, codes(h.index().Notices)); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	h.log.add(t, main, ev(runevent.TypeMessageUser))
	h.log.add(t, main, ev(runevent.TypeRunFinished))
	if n := h.index().Notices; len(n) > 0 {
		t.Errorf("it has all of them now, but there are notices: %+v", n)
	}
}

func TestCursorsAreChecked(t *testing.T) {
	h := newHand(t)
	h.log.add(t, main, ev(runevent.TypeRunStarted))
	ix := h.index()
	other := trajectory.NewBuilder(cas.Scope{Namespace: story.Namespace, Session: "other"}).Index()
	foreign := page(t, other, "", 1).Cursor
	for name, c := range map[string]struct {
		cursor string
		want   error
	}{
		"not base64": {"%%%", trajectory.ErrCursor}, "not JSON": {"YWJj", trajectory.ErrCursor}, "of another session": {foreign, trajectory.ErrCursorExpired},
		"of another version": {"eyJ2Ijo5fQ", trajectory.ErrCursorExpired},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ix.Page(c.cursor, 10); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

func TestTheLogsOwnFailureIsAnError(t *testing.T) {
	h := newHand(t)
	h.log.add(t, main, ev(runevent.TypeRunStarted))
	ix := h.index()
	h.log.fail = runevent.ErrUnavailable
	if err := h.r.Refresh(t.Context(), h.b); !errors.Is(err, runevent.ErrUnavailable) {
		t.Errorf("refresh: %v", err)
	}
	if _, err := h.r.Detail(t.Context(), ix, "run.main.1", 0); !errors.Is(err, runevent.ErrUnavailable) {
		t.Errorf("detail: %v", err)
	}
	var out bytes.Buffer
	if _, err := h.r.Export(t.Context(), ix, trajectory.Header{Session: 1}, trajectory.OneByOne, &out); !errors.Is(err, runevent.ErrUnavailable) {
		t.Errorf("export: %v", err)
	}
	if strings.Contains(out.String(), `"type":"complete"`) {
		t.Error("an export that failed says that it is complete")
	}
}

// faulty is a store that lost objects, holds other bytes, or does not answer.
type faulty struct {
	cas.Store
	errs map[cas.Digest]error
}

func (f *faulty) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	if err := f.errs[ref.Digest]; err != nil {
		return nil, err
	}
	return f.Store.Get(ctx, scope, ref)
}

// brokenStory is the sample with one object of a kind broken.
func brokenStory(t *testing.T, err error, pick func(d trajectory.Detail) cas.Digest) (*trajectory.Reader, *trajectory.Index) {
	t.Helper()
	s := sample(t)
	r, ix := read(t, s)
	d, detailErr := r.Detail(t.Context(), ix, "run.main.13", 0)
	if detailErr != nil {
		t.Fatal(detailErr)
	}
	s.Store = &faulty{Store: s.Store, errs: map[cas.Digest]error{pick(d): err}}
	return read(t, s)
}

func TestIntegrityOfObjects(t *testing.T) {
	contextObject := func(d trajectory.Detail) cas.Digest { return d.Input.ContextRef.Digest }
	sections := func(d trajectory.Detail) cas.Digest { return d.AgentState.Sections.Digest }
	message := func(d trajectory.Detail) cas.Digest { return d.Input.Messages[0].Digest }
	state := func(d trajectory.Detail) cas.Digest { return d.AgentState.Ref.Digest }
	cases := map[string]struct {
		err   error
		pick  func(trajectory.Detail) cas.Digest
		codes []string
		check func(trajectory.Detail) bool
	}{
		"the context is missing": {cas.ErrNotFound, contextObject, []string{"objectMissing"}, func(d trajectory.Detail) bool { return d.Input == nil && len(d.Events) == 1 }},
		"the context was changed": {
			cas.ErrCorrupt, contextObject, []string{"objectCorrupt"}, func(d trajectory.Detail) bool { return d.Input == nil && d.AgentState != nil },
		},
		"the system prompt is missing": {
			cas.ErrNotFound, sections, []string{"objectMissing", "sourceUnavailable"},
			func(d trajectory.Detail) bool {
				return !d.Input.Verified && d.Input.System.Provenance == "unavailable" && len(d.Input.Messages) == 4
			},
		},
		"one message is missing": {
			cas.ErrNotFound, message, []string{"objectMissing"},
			func(d trajectory.Detail) bool {
				return !d.Input.Verified && d.Input.Messages[0].Unavailable != "" && d.Input.Messages[0].Message == nil && d.Input.Messages[1].Message != nil
			},
		},
		"the state was changed": {
			cas.ErrCorrupt, state, []string{"objectCorrupt"},
			func(d trajectory.Detail) bool { return d.AgentState == nil && d.Input.Messages[1].Message != nil },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, ix := brokenStory(t, c.err, c.pick)
			d, err := r.Detail(t.Context(), ix, "run.main.13", 0)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, n := range d.Notices {
				got = append(got, string(n.Code))
				if n.EntryID != "run.main.13" {
					t.Errorf("the notice does not name its entry: %+v", n)
				}
			}
			if diff := cmp.Diff(c.codes, got); diff != "" {
				t.Errorf("notices (-want +got):\n%s", diff)
			}
			if !c.check(d) {
				t.Errorf("detail is %+v", d)
			}
			var out bytes.Buffer
			records, err := r.Export(t.Context(), ix, trajectory.Header{Session: 1}, trajectory.OneByOne, &out)
			if err != nil || records != ix.Counts.Entries || !strings.Contains(out.String(), `"type":"complete"`) {
				t.Errorf("an export over a broken object: %d records, %v; want all of them", records, err)
			}
		})
	}
}

func TestAStoreThatDoesNotAnswerIsAnError(t *testing.T) {
	away := errors.New("connection refused")
	r, ix := brokenStory(t, away, func(d trajectory.Detail) cas.Digest { return d.Input.ContextRef.Digest })
	if _, err := r.Detail(t.Context(), ix, "run.main.13", 0); !errors.Is(err, away) {
		t.Errorf("detail: %v", err)
	}
	var out bytes.Buffer
	if _, err := r.Export(t.Context(), ix, trajectory.Header{Session: 1}, trajectory.OneByOne, &out); !errors.Is(err, away) || strings.Contains(out.String(), `"complete"`) {
		t.Errorf("export: %v", err)
	}
}
