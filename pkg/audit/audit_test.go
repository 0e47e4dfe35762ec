package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/audit"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/test/synthetic"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// damaged is a store in which objects are missing, other ones, or out of reach.
type damaged struct {
	cas.Store
	gone, changed map[cas.Digest]bool
	down          error
	reads         atomic.Int64
}

func (d *damaged) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	d.reads.Add(1)
	switch {
	case d.down != nil:
		return nil, d.down
	case d.gone[ref.Digest]:
		return nil, fmt.Errorf("%w: %s", cas.ErrNotFound, ref.Digest)
	case d.changed[ref.Digest]:
		return nil, fmt.Errorf("%w: %s", cas.ErrCorrupt, ref.Digest)
	}
	return d.Store.Get(ctx, scope, ref)
}

// records is a log that a test changes.
type records struct {
	all map[runevent.Stream][]runevent.Record
}

func recordsOf(t *testing.T, log audit.Log) *records {
	t.Helper()
	out := &records{all: map[runevent.Stream][]runevent.Record{}}
	ends, err := log.Streams(t.Context(), story.Namespace, story.Session)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range ends {
		err := log.Read(t.Context(), end.Stream, 0, func(r runevent.Record) error {
			out.all[end.Stream] = append(out.all[end.Stream], r)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func (r *records) Read(_ context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error {
	for _, record := range r.all[stream] {
		if record.Head.Sequence > after {
			if err := fn(record); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *records) Streams(context.Context, string, string) ([]runevent.Record, error) {
	var ends []runevent.Record
	for _, all := range r.all {
		ends = append(ends, all[len(all)-1])
	}
	return ends, nil
}

// replace puts other bytes in the place of an entry.
func (r *records) replace(stream runevent.Stream, sequence int, change func(raw []byte) []byte) {
	old := r.all[stream][sequence-1]
	raw := change(slices.Clone(old.Raw))
	r.all[stream][sequence-1] = runevent.Record{Stream: stream, Head: runevent.HeadOf(old.Head.Sequence, old.Head.Position, raw), Raw: raw}
}

func run(t *testing.T, a *audit.Audit) ([]string, audit.Summary) {
	t.Helper()
	found := []string{}
	a.Scope = cas.Scope{Namespace: story.Namespace, Session: story.Session}
	a.Report = func(p audit.Problem) error {
		line := string(p.Code)
		if p.Digest.IsZero() {
			line += fmt.Sprintf(" %s %d-%d", p.Stream, p.Sequence, p.Last)
		}
		found = append(found, line)
		return nil
	}
	sum, err := a.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return slices.Compact(found), sum
}

var main = story.Stream(runevent.MainAgent)

func TestASoundSession(t *testing.T) {
	stories := map[string]func(context.Context) (*story.Story, error){"two runs": story.Sample, "with subagents": story.Delegated}
	for name, tell := range stories {
		t.Run(name, func(t *testing.T) {
			s, err := tell(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			stored := map[cas.Digest]bool{}
			err = s.Store.List(t.Context(), s.Scope(), func(ref cas.Ref) error {
				stored[ref.Digest] = true
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			store := &damaged{Store: s.Store}
			found, sum := run(t, &audit.Audit{Log: s.Log, Store: store})
			if len(found) > 0 {
				t.Errorf("found %v", found)
			}
			if int(sum.Objects) != len(stored) {
				t.Errorf("%d objects were read, %d are stored", sum.Objects, len(stored))
			}
			if sum.Inputs == 0 || sum.Entries == 0 || store.reads.Load() > int64(len(stored)) {
				t.Errorf("%d reads of %d objects; %+v", store.reads.Load(), len(stored), sum)
			}
		})
	}
}

func TestALongSession(t *testing.T) {
	store := memstore.New()
	scope := cas.Scope{Namespace: story.Namespace, Session: story.Session}
	s, err := synthetic.New(t.Context(), store, scope, synthetic.Sized(3000, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	progress := 0
	found, sum := run(t, &audit.Audit{Log: s.Log, Store: store, Progress: func(audit.Summary) { progress++ }})
	stored := int64(0)
	err = store.List(t.Context(), scope, func(cas.Ref) error {
		stored++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 || int(sum.Entries) != s.Log.Events() || sum.Objects != stored || sum.Inputs == 0 || progress == 0 {
		t.Errorf("found %v in %d entries, %d inputs and %d objects, there are %d entries and %d objects", found, sum.Entries, sum.Inputs, sum.Objects, s.Log.Events(), stored)
	}
}

func TestEntries(t *testing.T) {
	cases := map[string]struct {
		damage func(r *records)
		want   []string
		expect int64
	}{
		"entries are missing": {damage: func(r *records) { r.all[main] = slices.Delete(r.all[main], 3, 6) }, want: []string{"missingEntries run/main 4-6"}},
		"the beginning is missing": {
			damage: func(r *records) { r.all[main] = r.all[main][2:] }, want: []string{"missingEntries run/main 1-2"},
		},
		"an entry was replaced": {
			damage: func(r *records) {
				r.replace(main, 5, func(raw []byte) []byte {
					return bytes.Replace(raw, []byte(`"createdAt":"2026`), []byte(`"createdAt":"2025`), 1)
				})
			},
			want: []string{"brokenLink run/main 6-0"},
		},
		"an entry is no entry": {
			damage: func(r *records) { r.replace(main, 5, func([]byte) []byte { return []byte(`{"sequence":`) }) },
			want:   []string{"brokenLink run/main 6-0", "damagedEntry run/main 5-0"},
		},
		"an entry of another place": {
			damage: func(r *records) { r.replace(main, 5, func([]byte) []byte { return r.all[main][1].Raw }) },
			want:   []string{"brokenLink run/main 6-0", "damagedEntry run/main 5-0"},
		},
		"an entry of a later version": {
			damage: func(r *records) {
				last := len(r.all[main])
				r.replace(main, last, func(raw []byte) []byte { return bytes.Replace(raw, []byte(`"v":1`), []byte(`"v":9`), 1) })
			},
			want: []string{"unknownEntry run/main 28-0"},
		},
		"fewer entries than are known": {damage: func(*records) {}, expect: 40, want: []string{"truncatedStream run/main 29-40"}},
		"no entries at all":            {damage: func(r *records) { clear(r.all) }, expect: 2, want: []string{"truncatedStream run/main 1-2"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := story.Sample(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r := recordsOf(t, s.Log)
			c.damage(r)
			found, sum := run(t, &audit.Audit{Log: r, Store: s.Store, Expect: map[string]int64{runevent.MainAgent: c.expect}})
			if diff := cmp.Diff(c.want, found); diff != "" {
				t.Errorf("-want +got:\n%s\n%+v", diff, sum)
			}
		})
	}
}

// TestObjects damages every object of a session, one after the other.
func TestObjects(t *testing.T) {
	s, err := story.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []cas.Digest
	err = s.Store.List(t.Context(), s.Scope(), func(ref cas.Ref) error {
		all = append(all, ref.Digest)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, digest := range all {
		gone, _ := run(t, &audit.Audit{Log: s.Log, Store: &damaged{Store: s.Store, gone: map[cas.Digest]bool{digest: true}}})
		changed, _ := run(t, &audit.Audit{Log: s.Log, Store: &damaged{Store: s.Store, changed: map[cas.Digest]bool{digest: true}}})
		if !slices.Equal(gone, []string{"missingObject"}) || !slices.Equal(changed, []string{"corruptObject"}) {
			t.Errorf("%s: missing gives %v, changed gives %v", digest, gone, changed)
		}
	}
}

func TestReferences(t *testing.T) {
	good := message.Encode(message.Message{Role: message.RoleUser, Content: message.Text("hello")})
	put := func(t *testing.T, s *story.Story, mediaType string, object any) *cas.Ref {
		raw, ok := object.([]byte)
		if !ok {
			var err error
			if raw, err = session.EncodeObject(object); err != nil {
				t.Fatal(err)
			}
		}
		ref, err := s.Store.Put(t.Context(), s.Scope(), mediaType, raw)
		if err != nil {
			t.Fatal(err)
		}
		return &ref
	}
	cases := map[string]struct {
		event func(t *testing.T, s *story.Story) runevent.Event
		want  string
	}{
		"another size": {func(t *testing.T, s *story.Story) runevent.Event {
			ref := put(t, s, cas.MediaMessage, good)
			twice := *ref
			twice.Size = 0
			ref.Size++
			_, err := s.Append(t.Context(), main, runevent.Event{Type: runevent.TypeMessageUser, Ref: &twice})
			if err != nil {
				t.Fatal(err)
			}
			return runevent.Event{Type: runevent.TypeMessageUser, Ref: ref}
		}, "wrongReference"},
		"a message that the container does not have": {func(t *testing.T, s *story.Story) runevent.Event {
			action := put(t, s, cas.MediaModelAction, session.ModelAction{
				V: 1, ContextRef: cas.Ref{Digest: cas.Of(nil)}, Message: message.Message{Role: message.RoleAssistant, StopReason: message.StopStop, Content: message.Blocks(message.Block{Type: message.BlockText, Text: "x"})},
			})
			three := 3
			return runevent.Event{Type: runevent.TypeRunFinished, Result: &cas.MessageRef{Digest: action.Digest, Index: &three}}
		}, "missingObject wrongReference"},
		"a list that says another number": {func(t *testing.T, s *story.Story) runevent.Event {
			ref := put(t, s, cas.MediaMessage, good)
			state := put(t, s, cas.MediaState, session.AgentState{V: 1, Agent: "main", History: cas.MessageList{Count: 2, Tail: []cas.MessageRef{{Digest: ref.Digest}}}})
			return runevent.Event{Type: runevent.TypeRunStarted, Evidence: runevent.Evidence{StateRef: state}}
		}, "wrongList"},
		"an input of other bytes": {func(t *testing.T, s *story.Story) runevent.Event {
			ref := put(t, s, cas.MediaMessage, good)
			c := put(t, s, cas.MediaContext, session.ContextSnapshot{
				V: 1, Messages: cas.MessageList{Count: 1, Tail: []cas.MessageRef{{Digest: ref.Digest}}}, InputDigest: cas.Of([]byte("other")), InputSize: 5,
			})
			return runevent.Event{Type: runevent.TypeRecord, Kind: runevent.KindContextCaptured, Evidence: runevent.Evidence{ContextRef: c}}
		}, "wrongInput"},
		"an object of a later version": {func(t *testing.T, s *story.Story) runevent.Event {
			return runevent.Event{Type: runevent.TypeRunStarted, Config: put(t, s, cas.MediaRunConfig, []byte(`{"v":7}`))}
		}, "unknownObject"},
		"an object of another session": {func(t *testing.T, s *story.Story) runevent.Event {
			other := s.Scope()
			other.Session = "other"
			ref, err := s.Store.Put(t.Context(), other, cas.MediaMessage, good)
			if err != nil {
				t.Fatal(err)
			}
			return runevent.Event{Type: runevent.TypeMessageUser, Ref: &ref}
		}, "missingObject"},
		"the parts of a body": {func(t *testing.T, s *story.Story) runevent.Event {
			ref := put(t, s, cas.MediaParts, []byte(`{"mediaType":"text/plain","size":4,"parts":[{"digest":"`+cas.Of([]byte("gone")).String()+`","size":4}]}`))
			return runevent.Event{Type: runevent.TypeToolResult, Whole: ref}
		}, "missingObject"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := story.Sample(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Append(t.Context(), main, c.event(t, s)); err != nil {
				t.Fatal(err)
			}
			found, _ := run(t, &audit.Audit{Log: s.Log, Store: s.Store})
			if diff := cmp.Diff(strings.Fields(c.want), found); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestAStoreThatDoesNotAnswer wants no problem to be made up.
func TestAStoreThatDoesNotAnswer(t *testing.T) {
	s, err := story.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	down := errors.New("connection refused")
	a := &audit.Audit{
		Log: s.Log, Store: &damaged{Store: s.Store, down: down}, Scope: s.Scope(),
		Report: func(p audit.Problem) error { return fmt.Errorf("reported %+v", p) },
	}
	if _, err := a.Run(t.Context()); !errors.Is(err, down) {
		t.Errorf("%v, want %v", err, down)
	}
}
