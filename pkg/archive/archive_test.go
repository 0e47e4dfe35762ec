package archive_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/test/synthetic"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// world is a session with what archives it.
type world struct {
	*story.Story
	store *memstore.Store
	t     *testing.T
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, err := story.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	store, ok := s.Store.(*memstore.Store)
	if !ok {
		t.Fatal("the story has another store")
	}
	return &world{s, store, t}
}

func (w *world) archiver() *archive.Archiver {
	return &archive.Archiver{Log: w.Log, Trimmer: w.Log, Store: w.store, Archives: w.store}
}

// archive makes the archives, and removes what is in them when remove is set.
func (w *world) archive(remove bool) archive.Result {
	w.t.Helper()
	result, err := w.archiver().Session(w.t.Context(), w.Scope(), remove)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *world) over() *archive.Log {
	w.t.Helper()
	log, err := archive.Over(w.Log, w.store, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return log
}

func (w *world) names() []string {
	w.t.Helper()
	var names []string
	err := w.store.ListArchives(w.t.Context(), w.Scope(), func(name string) error {
		names = append(names, name)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

var main = story.Stream(runevent.MainAgent)

// entries are the entries of a stream behind a sequence, as a log has them.
func entries(t *testing.T, log runevent.Log, stream runevent.Stream, after int64) []string {
	t.Helper()
	var got []string
	err := log.Read(t.Context(), stream, after, func(rec runevent.Record) error {
		if rec.Stream != stream || rec.Head.Digest != cas.Of(rec.Raw) {
			t.Errorf("record %d of %s is not what it says", rec.Head.Sequence, rec.Stream)
		}
		got = append(got, fmt.Sprintf("%d %s", rec.Head.Sequence, rec.Raw))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func run(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func TestArchivedRunsAreReadAsBefore(t *testing.T) {
	w := newWorld(t)
	before := entries(t, w.Log, main, 0)
	result := w.archive(false)
	if diff := cmp.Diff([]string{run(1) + ".jsonl.zst", run(2) + ".jsonl.zst"}, result.Files); diff != "" || int(result.Entries) != len(before) || result.Removed != 0 {
		t.Fatalf("files (-want +got):\n%s\n%+v", diff, result)
	}
	if diff := cmp.Diff(before, entries(t, w.Log, main, 0)); diff != "" {
		t.Errorf("the log has changed:\n%s", diff)
	}
	if again := w.archive(false); len(again.Files) > 0 {
		t.Errorf("what is archived is archived again: %v", again.Files)
	}
	result = w.archive(true)
	left := entries(t, w.Log, main, 0)
	if len(left) != 2 || int(result.Removed) != len(before)-2 {
		t.Errorf("%d entries were removed and %d are left, want all but the last commit and the end of its run", result.Removed, len(left))
	}
	log := w.over()
	for after := range len(before) {
		if diff := cmp.Diff(before[after:], entries(t, log, main, int64(after))); diff != "" {
			t.Errorf("behind entry %d (-want +got):\n%s", after, diff)
		}
	}
	if again := w.archive(true); len(again.Files) > 0 || again.Removed > 0 {
		t.Errorf("a second time something is done: %+v", again)
	}
}

// TestARunThatIsAlive wants only what has ended to be archived, and the session to go on afterwards.
func TestARunThatIsAlive(t *testing.T) {
	w := newWorld(t)
	ended := entries(t, w.Log, main, 0)
	w.archive(true)
	if _, err := w.Do(t.Context(), story.Run{Prompt: "One more.", Replies: []story.Reply{story.Says("", "Yes.")}}); err != nil {
		t.Fatalf("the session does not go on: %v", err)
	}
	_, err := w.Append(t.Context(), main, runevent.Event{Type: runevent.TypeRunStarted, Evidence: runevent.Evidence{AgentID: "main", AgentRunID: run(4)}})
	if err != nil {
		t.Fatal(err)
	}
	all := entries(t, w.over(), main, 0)
	if diff := cmp.Diff(ended, all[:len(ended)]); diff != "" || len(all) <= len(ended) {
		t.Errorf("%d entries, -want +got:\n%s", len(all), diff)
	}
	result := w.archive(true)
	if diff := cmp.Diff([]string{run(3) + ".jsonl.zst"}, result.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(all, entries(t, w.over(), main, 0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if left := entries(t, w.Log, main, 0); len(left) != 3 {
		t.Errorf("%d entries are left, want the last commit, the end of its run and the start of the live one", len(left))
	}
}

func TestToolOutput(t *testing.T) {
	w := newWorld(t)
	out := main
	out.Class, out.Key = runevent.ClassOut, "call-1"
	say := func(run string) {
		t.Helper()
		for range 3 {
			event := runevent.Event{Type: runevent.TypeToolOutput, Text: "printed", CallID: "c", Evidence: runevent.Evidence{AgentID: "main", AgentRunID: run}}
			if _, err := w.Append(t.Context(), out, event); err != nil {
				t.Fatal(err)
			}
		}
	}
	say(run(1))
	first := w.archive(true)
	if len(entries(t, w.Log, out, 0)) != 1 || len(entries(t, w.over(), out, 0)) != 3 {
		t.Errorf("the log has %d entries, with the archive there are %d; want 1 and 3", len(entries(t, w.Log, out, 0)), len(entries(t, w.over(), out, 0)))
	}
	say(run(1)) // a tool that goes on printing when its run is over
	late := w.archive(true)
	if diff := cmp.Diff([]string{run(1) + ".2.jsonl.zst"}, late.Files); diff != "" || len(first.Files) != 2 {
		t.Errorf("files %v, then (-want +got):\n%s", first.Files, diff)
	}
	if got := entries(t, w.over(), out, 0); len(got) != 6 {
		t.Errorf("%d entries, want 6", len(got))
	}
	out.Key = "call-2"
	say("a-run-that-nobody-knows")
	if result := w.archive(true); len(result.Files) > 0 || result.Removed > 0 {
		t.Errorf("output of a run that has not ended: %+v", result)
	}
}

// TestLongRuns archives agents that work at the same time, in runs of more than one file.
func TestLongRuns(t *testing.T) {
	store, log := memstore.New(), memlog.New()
	scope := cas.Scope{Namespace: story.Namespace, Session: story.Session}
	shape := synthetic.Sized(1500, time.Hour)
	shape.Agents, shape.Turns, shape.Input, shape.Text, shape.Runs = 1, 120, 4000, 8000, 2
	s, err := synthetic.New(t.Context(), store, scope, shape)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Log.Copy(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	ends, err := log.Streams(t.Context(), scope.Namespace, scope.Session)
	if err != nil {
		t.Fatal(err)
	}
	before := map[runevent.Stream][]string{}
	for _, end := range ends {
		before[end.Stream] = entries(t, log, end.Stream, 0)
	}
	w := &world{&story.Story{Log: log, Store: store}, store, t}
	result := w.archive(true)
	if int(result.Entries) != s.Log.Events() || len(result.Files) <= shape.Agents*shape.Runs {
		t.Errorf("%d of %d entries in %d files of %d bytes", result.Entries, s.Log.Events(), len(result.Files), s.Log.Bytes())
	}
	over := w.over()
	for stream, want := range before {
		if diff := cmp.Diff(want, entries(t, over, stream, 0)); diff != "" {
			t.Errorf("%s differs", stream)
		}
	}
}

var errCut = errors.New("connection cut")

// failing is the archives of a store that fail once, at the call with that number; a put has then stored all, part or
// nothing of the file.
type failing struct {
	*memstore.Store
	log   *memlog.Log
	at    int
	stale int
	calls int
}

func (f *failing) cut() bool {
	f.calls++
	return f.calls == f.at
}

func (f *failing) PutArchive(ctx context.Context, scope cas.Scope, name string, data []byte) error {
	if !f.cut() {
		return f.Store.PutArchive(ctx, scope, name, data)
	}
	if f.stale > 0 {
		_ = f.Store.PutArchive(ctx, scope, name, data[:len(data)*f.stale/2])
	}
	return errCut
}

func (f *failing) GetArchive(ctx context.Context, scope cas.Scope, name string) ([]byte, error) {
	if f.cut() {
		return nil, errCut
	}
	return f.Store.GetArchive(ctx, scope, name)
}

func (f *failing) ListArchives(ctx context.Context, scope cas.Scope, fn func(string) error) error {
	if f.cut() {
		return errCut
	}
	return f.Store.ListArchives(ctx, scope, fn)
}

func (f *failing) Trim(ctx context.Context, stream runevent.Stream, through int64) error {
	if !f.cut() {
		return f.log.Trim(ctx, stream, through)
	}
	if f.stale == 2 {
		_ = f.log.Trim(ctx, stream, through)
	}
	return errCut
}

// TestInterruptions cuts the work off at every call, in three ways, and takes it up again.
func TestInterruptions(t *testing.T) {
	for stale := range 3 {
		for at := 1; ; at++ {
			w := newWorld(t)
			before := entries(t, w.Log, main, 0)
			f := &failing{Store: w.store, log: w.Log, at: at, stale: stale}
			a := &archive.Archiver{Log: w.Log, Trimmer: f, Store: w.store, Archives: f}
			_, err := a.Session(t.Context(), w.Scope(), true)
			if f.calls < at {
				if at < 8 {
					t.Fatalf("there are only %d calls", f.calls)
				}
				break
			}
			if !errors.Is(err, errCut) {
				t.Fatalf("call %d: %v", at, err)
			}
			if diff := cmp.Diff(before, entries(t, w.over(), main, 0)); diff != "" {
				t.Errorf("call %d, %d halves done: -want +got:\n%s", at, stale, diff)
			}
			w.archive(true)
			if diff := cmp.Diff(before, entries(t, w.over(), main, 0)); diff != "" {
				t.Errorf("call %d, %d halves done, taken up again: -want +got:\n%s", at, stale, diff)
			}
			if diff := cmp.Diff([]string{run(1) + ".jsonl.zst", run(2) + ".jsonl.zst"}, w.names()); diff != "" {
				t.Errorf("call %d, %d halves done: files (-want +got):\n%s", at, stale, diff)
			}
			if left := entries(t, w.Log, main, 0); len(left) != 2 {
				t.Errorf("call %d, %d halves done: %d entries are left in the log", at, stale, len(left))
			}
		}
	}
}

// TestNothingIsRemovedOnAGuess damages files between their making and the removal of what they hold.
func TestNothingIsRemovedOnAGuess(t *testing.T) {
	cases := map[string]func(t *testing.T, w *world, name string, data []byte) []byte{
		"cut":     func(_ *testing.T, _ *world, _ string, data []byte) []byte { return data[:len(data)-1] },
		"flipped": func(_ *testing.T, _ *world, _ string, data []byte) []byte { data[len(data)/2] ^= 4; return data },
		"empty":   func(*testing.T, *world, string, []byte) []byte { return nil },
		"of another run": func(t *testing.T, w *world, _ string, _ []byte) []byte {
			other, err := w.store.GetArchive(t.Context(), w.Scope(), run(2)+".jsonl.zst")
			if err != nil {
				t.Fatal(err)
			}
			return other
		},
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := entries(t, w.Log, main, 0)
			w.archive(false)
			file := run(1) + ".jsonl.zst"
			data, err := w.store.GetArchive(t.Context(), w.Scope(), file)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.store.PutArchive(t.Context(), w.Scope(), file, damage(t, w, file, slices.Clone(data))); err != nil {
				t.Fatal(err)
			}
			result := w.archive(true) // writes the damaged file anew: the log has all of it
			if len(result.Files) != 1 {
				t.Errorf("files %v were written", result.Files)
			}
			if diff := cmp.Diff(before, entries(t, w.over(), main, 0)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			// Now the file is the only copy. It is never written again, and what it had is said to be missing.
			if err := w.store.PutArchive(t.Context(), w.Scope(), file, damage(t, w, file, slices.Clone(data))); err != nil {
				t.Fatal(err)
			}
			_, err = w.archiver().Session(t.Context(), w.Scope(), true)
			if !errors.Is(err, archive.ErrHistory) {
				t.Errorf("%v, want ErrHistory", err)
			}
			got := entries(t, w.over(), main, 0)
			if len(got) >= len(before) || len(got) < 2 {
				t.Errorf("%d of %d entries are read", len(got), len(before))
			}
		})
	}
}

// TestAnotherEntryInTheLog wants nothing removed where log and file differ.
func TestAnotherEntryInTheLog(t *testing.T) {
	w := newWorld(t)
	w.archive(false)
	other := memlog.New()
	var head runevent.Head
	err := w.Log.Read(t.Context(), main, 0, func(rec runevent.Record) error {
		entry, err := runevent.Decode(rec.Raw)
		if err != nil {
			return err
		}
		if entry.Sequence == 5 {
			entry.Event.Message = "changed"
		}
		entry.Event.Evidence.Prev = head.Digest
		raw, err := runevent.Encode(entry)
		if err != nil {
			return err
		}
		head, err = other.Append(t.Context(), main, head, raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &archive.Archiver{Log: other, Trimmer: other, Store: w.store, Archives: w.store}
	if _, err := a.Session(t.Context(), w.Scope(), true); !errors.Is(err, archive.ErrHistory) {
		t.Errorf("%v, want ErrHistory", err)
	}
	if len(entries(t, other, main, 0)) != len(entries(t, w.Log, main, 0)) {
		t.Error("entries were removed")
	}
}

// TestAStoreThatDoesNotAnswer wants an error and no gap.
func TestAStoreThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	w.archive(true)
	for at := 1; at <= 2; at++ {
		log, err := archive.Over(w.Log, &failing{Store: w.store, at: at}, nil)
		if err != nil {
			t.Fatal(err)
		}
		delivered := 0
		err = log.Read(t.Context(), main, 0, func(runevent.Record) error { delivered++; return nil })
		if !errors.Is(err, errCut) || delivered > 0 {
			t.Errorf("call %d: %v after %d entries, want the store's error", at, err, delivered)
		}
		if got := entries(t, log, main, 0); len(got) < 3 {
			t.Errorf("asked again there are %d entries", len(got))
		}
	}
}

// TestFormat holds a file to its golden form, and shows that the usual tools read it.
func TestFormat(t *testing.T) {
	w := newWorld(t)
	w.archive(false)
	data, err := w.store.GetArchive(t.Context(), w.Scope(), run(2)+".jsonl.zst")
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	plain, err := decoder.DecodeAll(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/archive.jsonl"
	if *update {
		if err := os.WriteFile(golden, plain, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(plain)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for line := range strings.Lines(string(plain)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line is no JSON: %.80s", line)
		}
	}
}

// FuzzDecode wants whatever is not a whole file to be refused, and what is taken to be whole.
func FuzzDecode(f *testing.F) {
	plain, err := os.ReadFile("testdata/archive.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"v":1,"type":"archive","streams":[{"class":"run","key":"main","first":1,"last":9223372036854775807}]}` + "\n" + `{"type":"complete","entries":0}` + "\n"))
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	scope := cas.Scope{Namespace: story.Namespace, Session: story.Session}
	f.Fuzz(func(t *testing.T, plain []byte) {
		file, err := archive.Decode(scope, encoder.EncodeAll(plain, nil))
		if err != nil {
			return
		}
		for i, stretch := range file.Stretches {
			records := file.Records[i]
			if int64(len(records)) != stretch.Last-stretch.First+1 || records[len(records)-1].Head.Digest != stretch.Digest {
				t.Errorf("%+v has %d records", stretch, len(records))
			}
		}
		if _, err := archive.Encode(file); err != nil {
			t.Errorf("what was taken cannot be written: %v", err)
		}
	})
}

var update = flag.Bool("update", false, "write the golden file")
