package trajectory_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/legacy"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// importInto stores files as an import does: byte for byte, with a list of them.
func importInto(t *testing.T, store cas.Store, scope cas.Scope, files map[string]string) {
	t.Helper()
	var manifest legacy.Manifest
	for name, content := range files {
		body, err := cas.PutBody(t.Context(), cas.Into(store, scope.In(cas.TreeFiles)), cas.MediaBlob, []byte(content))
		if err != nil {
			t.Fatal(err)
		}
		manifest.Files = append(manifest.Files, legacy.File{
			Path: name, Kind: legacy.KindOf(name), Size: int64(len(content)), SHA256: cas.Of([]byte(content)), Body: body,
		})
	}
	raw, err := manifest.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), scope.In(cas.TreeManifests), cas.MediaImport, raw); err != nil {
		t.Fatal(err)
	}
}

// fixtures are the files of testdata/legacy by their path.
func fixtures(t *testing.T) map[string]string {
	t.Helper()
	root := os.DirFS(filepath.Join("testdata", "legacy"))
	files := map[string]string{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(root, name)
		files[name] = string(raw)
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	return files
}

// imported is a session of imported files only.
func imported(t *testing.T, files map[string]string) *hand {
	t.Helper()
	h := newHand(t)
	importInto(t, h.store, h.scope, files)
	return h
}

// lines are entries in short, with where they are from.
func lines(h *hand, ix *trajectory.Index) []string {
	timed, untimed := ix.All()
	out := []string{}
	for i, e := range append(timed, untimed...) {
		text := fmt.Sprintf("%s %s %s #%d %s", e.Agent, e.Type, e.Event, e.Sequence, e.Status)
		if i >= len(timed) {
			text += " untimed"
		}
		if e.DuplicateOf != "" {
			text += " =" + e.DuplicateOf[:strings.Index(e.DuplicateOf, ".")]
		}
		if e.InputID != "" || e.ImportedFrom == "" {
			h.t.Errorf("imported entry %+v has an input or no file", e)
		}
		out = append(out, text)
	}
	return out
}

func TestImportedFiles(t *testing.T) {
	h := imported(t, fixtures(t))
	ix := h.index()
	want := []string{
		"main reasoning reasoning #1 completed",
		"main reasoning reasoning #1 completed =legacy",
		"main reasoning reasoning #3 completed",
		"main modelOutput model.completed #5 completed",
		"main lifecycle body #2 completed =legacy",
		"main tool tool.call #2 unfinished =legacy",
		"main lifecycle body #3 completed",
		"main tool tool.call #4 completed",
		"main unknown checkpoint #7 ",
		"main modelOutput model.completed #8 completed",
		"researcher-0a1b2c3d lifecycle body #1 completed untimed =legacy",
		"researcher-0a1b2c3d tool tool.call #1 unfinished untimed",
		"researcher-0a1b2c3d lifecycle body #1 unfinished untimed",
		"researcher-0a1b2c3d tool tool.call #2 unfinished untimed",
	}
	got := lines(h, ix)
	if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	var notices []string
	for _, n := range ix.Notices {
		notices = append(notices, fmt.Sprintf("%s %s %d-%d %t", n.Code, n.Stream, n.From, n.To, n.EntryID != ""))
	}
	wantNotices := []string{
		"importedRecords segments/main/old-run-1.jsonl 0-0 false",
		"importedRecords segments/researcher-0a1b2c3d.json 0-0 false",
		"unknownRecord trajectories/main/old-run-1.jsonl 7-7 true",
		"sequenceGap trajectories/main/old-run-1.jsonl 8-8 false",
		"importedRecords trajectories/main/old-run-1.jsonl 0-0 false",
		"importedRecords trajectories/researcher-0a1b2c3d/old-run-2.jsonl 0-0 false",
		"parametersDisagree segments/researcher-0a1b2c3d.json 1-1 true",
	}
	if diff := cmp.Diff(wantNotices, notices); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	if runs := ix.AllRuns(); len(runs) > 0 {
		t.Errorf("files list the runs %+v, whose status they do not know", runs)
	}
	var agents []string
	for _, a := range ix.Agents {
		agents = append(agents, fmt.Sprintf("%s %s %d %d", a.ID, a.Kind, a.Entries, a.StartedAt))
	}
	if diff := cmp.Diff([]string{"main main 10 1762077601000000", "researcher-0a1b2c3d subagent 4 0"}, agents); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	history, err := h.r.History(t.Context(), ix, "researcher-0a1b2c3d", -1, 10)
	if err != nil || history.Total != 0 {
		t.Errorf("the conversation of an agent without a stream: %+v, %v", history, err)
	}
}

// entryOf is the entry of a file's line.
func entryOf(t *testing.T, ix *trajectory.Index, file string, line int64, kind trajectory.Type) trajectory.Entry {
	t.Helper()
	timed, untimed := ix.All()
	for _, e := range append(timed, untimed...) {
		if e.ImportedFrom == file && e.Sequence == line && e.Type == kind {
			return e
		}
	}
	t.Fatalf("no %s in line %d of %s", kind, line, file)
	return trajectory.Entry{}
}

func TestGoldenImportedDetails(t *testing.T) {
	h := imported(t, fixtures(t))
	ix := h.index()
	const main, sub = "trajectories/main/old-run-1.jsonl", "trajectories/researcher-0a1b2c3d/old-run-2.jsonl"
	for name, entry := range map[string]trajectory.Entry{
		"reasoning":      entryOf(t, ix, main, 1, trajectory.TypeReasoning),
		"tool":           entryOf(t, ix, main, 4, trajectory.TypeTool),
		"output":         entryOf(t, ix, main, 5, trajectory.TypeModelOutput),
		"unknown":        entryOf(t, ix, main, 7, trajectory.TypeUnknown),
		"payload":        entryOf(t, ix, main, 8, trajectory.TypeModelOutput),
		"disagreeing":    entryOf(t, ix, sub, 2, trajectory.TypeTool),
		"segments-other": entryOf(t, ix, "segments/researcher-0a1b2c3d.json", 1, trajectory.TypeTool),
	} {
		t.Run(name, func(t *testing.T) {
			d, err := h.r.Detail(t.Context(), ix, entry.ID, 0)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := trajectory.Encode(d)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "imported-"+name+".json", indented(t, raw))
		})
	}
	var out bytes.Buffer
	records, err := h.r.Export(t.Context(), ix, trajectory.Header{Session: 1}, trajectory.OneByOne, &out)
	if err != nil || records != ix.Counts.Entries || records != 14 {
		t.Errorf("the export has %d records, %v", records, err)
	}
	for _, secret := range []string{"hunter2", "sk-live-777", "t-123"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q came through", secret)
		}
	}
}

const (
	segmentFile = "segments/s.jsonl"
	journalFile = "trajectories/main/r.jsonl"
)

// segment is a line of a segments file.
func segment(fields string) string { return `{"agentId":"main",` + fields + "}\n" }

// TestSegmentsAndRunEvents holds imported segments against run events: what is the same, what only looks alike, and whose
// parameters are whose.
func TestSegmentsAndRunEvents(t *testing.T) {
	reasoning := segment(`"channel":"reasoning","responseId":"resp","text":"I think so."`)
	withCall := func(parameters string) string {
		return segment(`"agentRunId":"u1","toolCalls":[{"callId":"1","toolName":"tool-1","parameters":` + parameters + `}]`)
	}
	think := []runevent.Event{
		ev(runevent.TypeReasoning, in("r", "a"), response("resp"), text("I think")), ev(runevent.TypeReasoning, in("r", "a"), response("resp"), text(" so.")),
	}
	arguments := func(raw string) func(*runevent.Event) {
		return func(e *runevent.Event) { e.Arguments = json.RawMessage(raw) }
	}
	bare := ev(runevent.TypeToolCall, in("r", "a"), call("1"))
	cases := map[string]struct {
		events   []runevent.Event
		segments string
		// hidden are the imported entries that double another one, of all; parameters those of run.main.1.
		all, hidden int
		parameters  string
		notices     []string
	}{
		"the same text":                        {events: think, segments: reasoning, all: 1, hidden: 1},
		"a longer text":                        {events: think, segments: segment(`"channel":"reasoning","responseId":"resp","text":"I think so. Yes."`), all: 1},
		"the same text of another response":    {events: think, segments: segment(`"channel":"reasoning","responseId":"resp-2","text":"I think so."`), all: 1},
		"the same text of another agent":       {events: think, segments: strings.Replace(reasoning, `"main"`, `"other"`, 1), all: 1},
		"the same text of no response":         {events: think, segments: segment(`"channel":"reasoning","text":"I think so."`), all: 1},
		"the same text twice":                  {events: think, segments: reasoning + reasoning, all: 2, hidden: 2},
		"an event without parameters":          {[]runevent.Event{bare}, withCall(`{"q":1,"r":2}`), 1, 1, `{"q":1,"r":2}`, nil},
		"an event with the same parameters":    {[]runevent.Event{ev(runevent.TypeToolCall, in("r", "a"), call("1"), arguments(`{"q":1,"r":2}`))}, withCall(`{"r":2, "q":1}`), 1, 1, `{"q":1,"r":2}`, nil},
		"an event with other parameters":       {[]runevent.Event{ev(runevent.TypeToolCall, in("r", "a"), call("1"), arguments(`{"q":2}`))}, withCall(`{"q":1}`), 1, 0, `{"q":2}`, []string{"parametersDisagree"}},
		"two segments that agree":              {[]runevent.Event{bare}, withCall(`{"q":1}`) + withCall(`{"q":1}`), 2, 2, `{"q":1}`, nil},
		"two segments that disagree":           {[]runevent.Event{bare}, withCall(`{"q":1}`) + withCall(`{"q":2}`), 2, 0, ``, []string{"parametersDisagree", "parametersDisagree"}},
		"a call id that is not unique":         {[]runevent.Event{bare, ev(runevent.TypeToolCall, in("r2", "a"), call("1"))}, withCall(`{"q":1}`), 1, 0, ``, nil},
		"another tool's name":                  {[]runevent.Event{bare}, strings.Replace(withCall(`{"q":1}`), "tool-1", "tool-2", 1), 1, 0, ``, nil},
		"another run of the owner":             {[]runevent.Event{bare}, strings.Replace(withCall(`{"q":1}`), "u1", "u2", 1), 1, 0, ``, nil},
		"another owner":                        {[]runevent.Event{bare}, strings.Replace(withCall(`{"q":1}`), `"main"`, `"other"`, 1), 1, 0, ``, nil},
		"a segment without parameters of them": {[]runevent.Event{bare}, withCall(`null`), 1, 1, ``, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHand(t)
			for _, event := range c.events {
				h.log.add(t, main, event)
			}
			importInto(t, h.store, h.scope, map[string]string{segmentFile: c.segments})
			ix := h.index()
			timed, untimed := ix.All()
			all, hidden := 0, 0
			for _, e := range append(timed, untimed...) {
				if e.ImportedFrom == "" {
					continue
				}
				all++
				if e.DuplicateOf != "" {
					hidden++
					if !e.Hidden || e.DuplicateOf != "run.main.1" {
						t.Errorf("doubled entry %+v", e)
					}
				}
			}
			var notices []string
			for _, n := range ix.Notices {
				if n.Code != trajectory.CodeImported {
					notices = append(notices, string(n.Code))
					if n.EntryID != "run.main.1" || n.Stream != segmentFile {
						t.Errorf("notice %+v does not name its entry and file", n)
					}
				}
			}
			if all != c.all || hidden != c.hidden || !cmp.Equal(c.notices, notices) {
				t.Errorf("%d imported, %d hidden, notices %v; want %d, %d, %v", all, hidden, notices, c.all, c.hidden, c.notices)
			}
			d, err := h.r.Detail(t.Context(), ix, "run.main.1", 0)
			if err != nil {
				t.Fatal(err)
			}
			if d.Tool == nil {
				return
			}
			if string(d.Tool.Parameters) != c.parameters || (d.Tool.Supplemented != nil) != (c.parameters != "" && c.events[0].Arguments == nil) {
				t.Errorf("parameters are %s, supplemented by %+v", d.Tool.Parameters, d.Tool.Supplemented)
			}
		})
	}
}

// TestASegmentThatIsDoubledLater lets a run event come in while the session is read.
func TestASegmentThatIsDoubledLater(t *testing.T) {
	h := imported(t, map[string]string{segmentFile: segment(`"channel":"reasoning","responseId":"resp","text":"I think so."`)})
	h.log.add(t, main, ev(runevent.TypeReasoning, in("r", "a"), response("resp"), text("I think")))
	before := h.index()
	cursor := page(t, before, "", 10).Cursor
	h.log.add(t, main, ev(runevent.TypeReasoning, in("r", "a"), response("resp"), text(" so.")))
	p := page(t, h.index(), cursor, 10)
	if len(p.Entries) != 1 || len(p.Untimed) != 1 || p.Untimed[0].DuplicateOf != "run.main.1" || !p.Untimed[0].Hidden {
		t.Errorf("the increment has %+v and %+v, want both entries", p.Entries, p.Untimed)
	}
	reads := h.log.reads
	h.log.add(t, main, ev(runevent.TypeRunFinished))
	if h.index(); h.log.reads != reads {
		t.Errorf("%d records were read once more, although neither text has grown", h.log.reads-reads)
	}
	if _, untimed := before.All(); untimed[0].DuplicateOf != "" {
		t.Error("an older index changed")
	}
}

func TestWhatIsWrongWithImportedFiles(t *testing.T) {
	good := `{"agentId":"main","agentRunId":"u","requestExecutionId":"e","turn":1,"recordedAt":"2025-01-02T03:04:05Z","responseId":"p","kind":"body","payload":{"text":"x"}}` + "\n"
	numbered := func(n int) string { return strings.Replace(good, `"kind"`, fmt.Sprintf(`"sequence":%d,"kind"`, n), 1) }
	cases := map[string]struct {
		file    string
		entries int
		notices []string
	}{
		"nothing":                         {good, 1, nil},
		"no end of the last line":         {strings.TrimSuffix(good, "\n"), 1, nil},
		"an incomplete tail":              {good + good[:40], 1, []string{"incompleteTail 2-2"}},
		"a damaged line":                  {good[:40] + "\n" + good, 1, []string{"damagedRecord 1-1"}},
		"a line of another kind of file":  {segment(`"channel":"body","text":"x"`) + good, 1, []string{"damagedRecord 1-1"}},
		"blank lines":                     {"\n" + good + "\n\n", 1, nil},
		"a gap":                           {numbered(1) + numbered(4), 1, []string{"sequenceGap 2-3"}},
		"records out of order":            {numbered(2) + numbered(1), 1, []string{"brokenLink 1-1"}},
		"an unknown kind":                 {strings.Replace(good, `"body"`, `"mood"`, 1), 1, []string{"unknownRecord 1-1"}},
		"a payload that is not there":     {strings.Replace(good, `"payload":{"text":"x"}`, `"payloadRef":"`+cas.Of([]byte("gone")).String()+`"`, 1), 1, []string{"objectMissing 1-1"}},
		"a time that cannot be read":      {strings.Replace(good, "2025-01-02T03:04:05Z", "yesterday", 1), 1, nil},
		"the time of a clock never set":   {strings.Replace(good, "2025-", "1970-", 1), 1, nil},
		"texts that name nothing at all":  {strings.Repeat(`{"agentId":"main","kind":"reasoning","payload":{"text":"x"}}`+"\n", 2), 2, nil},
		"a response without its message":  {strings.Replace(strings.Replace(good, `"body"`, `"modelAction"`, 1), `"text":"x"`, `"usage":{"input":1}`, 1), 0, []string{"damagedRecord 1-1"}},
		"a text that is not in any JSON":  {"I think so.\n", 0, []string{"damagedRecord 1-1"}},
		"an empty file":                   {"", 0, nil},
		"an agent that is no agent's key": {strings.Replace(good, `"main"`, `"a b"`, 1), 0, []string{"damagedRecord 1-1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := imported(t, map[string]string{journalFile: c.file})
			ix := h.index()
			var notices []string
			for _, n := range ix.Notices {
				if n.Code != trajectory.CodeImported {
					notices = append(notices, fmt.Sprintf("%s %d-%d", n.Code, n.From, n.To))
					if n.Stream != journalFile {
						t.Errorf("notice %+v does not name the file", n)
					}
				}
			}
			if ix.Counts.Entries != c.entries || !cmp.Equal(c.notices, notices) {
				t.Errorf("%d entries, notices %v; want %d, %v", ix.Counts.Entries, notices, c.entries, c.notices)
			}
			untimed := strings.Contains(name, "time") || strings.Contains(name, "nothing at all")
			if (ix.Counts.Untimed > 0) != untimed || ix.RealTime.Untimed != ix.Counts.Untimed {
				t.Errorf("%d of %d are untimed", ix.Counts.Untimed, ix.Counts.Entries)
			}
		})
	}
}

func TestImportsOfOneFile(t *testing.T) {
	one := `{"agentId":"main","kind":"reasoning","responseId":"p","payload":{"text":"x"}}` + "\n"
	two := one + strings.Replace(one, `"p"`, `"q"`, 1)
	t.Run("the same twice, and grown", func(t *testing.T) {
		h := imported(t, map[string]string{journalFile: one})
		before := h.index()
		cursor := page(t, before, "", 10).Cursor
		id := entryOf(t, before, journalFile, 1, trajectory.TypeReasoning).ID
		if err := h.r.Imported(t.Context(), h.b); err != nil {
			t.Errorf("nothing was imported meanwhile: %v", err)
		}
		importInto(t, h.store, h.scope, map[string]string{journalFile: two})
		if err := h.r.Imported(t.Context(), h.b); !errors.Is(err, trajectory.ErrRewritten) {
			t.Errorf("after an import: %v, want ErrRewritten", err)
		}
		h.b = h.b.Successor()
		ix := h.index()
		if ix.Counts.Entries != 2 || len(ix.Notices) != 1 || entryOf(t, ix, journalFile, 1, trajectory.TypeReasoning).ID != id {
			t.Errorf("%d entries, notices %+v", ix.Counts.Entries, ix.Notices)
		}
		if _, err := ix.Page(cursor, 10); !errors.Is(err, trajectory.ErrCursorExpired) {
			t.Errorf("a cursor from before the import: %v, want ErrCursorExpired", err)
		}
	})
	t.Run("two contents", func(t *testing.T) {
		h := imported(t, map[string]string{journalFile: one})
		importInto(t, h.store, h.scope, map[string]string{journalFile: strings.Replace(two, `"x"`, `"other"`, 1)})
		ix := h.index()
		if ix.Counts.Entries != 3 || !strings.Contains(fmt.Sprint(codes(ix.Notices)), "objectMismatch") {
			t.Errorf("%d entries, notices %v; want all three and a notice", ix.Counts.Entries, codes(ix.Notices))
		}
	})
	t.Run("a list that is damaged", func(t *testing.T) {
		h := imported(t, map[string]string{journalFile: one})
		if _, err := h.store.Put(t.Context(), h.scope.In(cas.TreeManifests), cas.MediaImport, []byte(`{"v":9}`)); err != nil {
			t.Fatal(err)
		}
		if ix := h.index(); ix.Counts.Entries != 1 || !strings.Contains(fmt.Sprint(codes(ix.Notices)), "objectUnknown") {
			t.Errorf("%d entries, notices %v", ix.Counts.Entries, codes(ix.Notices))
		}
	})
}

// TestAnImportedFileInParts has more bytes than one object may have, and is not held as a whole.
func TestAnImportedFileInParts(t *testing.T) {
	var file bytes.Buffer
	padding := strings.Repeat("x", 60<<10)
	for n := 1; file.Len() < cas.MaxObject+cas.PartSize; n++ {
		fmt.Fprintf(&file, `{"agentId":"main","kind":"reasoning","responseId":"p%d","payload":{"text":"%d %s"}}`+"\n", n, n, padding)
	}
	h := imported(t, map[string]string{journalFile: file.String()})
	ix := h.index()
	last := int64(ix.Counts.Entries)
	for _, line := range []int64{1, last / 2, last} {
		d, err := h.r.Detail(t.Context(), ix, entryOf(t, ix, journalFile, line, trajectory.TypeReasoning).ID, 0)
		if err != nil || d.Text == nil || !strings.HasPrefix(d.Text.Text, fmt.Sprint(line)+" x") {
			t.Errorf("line %d: %v", line, err)
		}
	}
}

func TestAStoreThatDoesNotAnswerWhileFilesAreRead(t *testing.T) {
	h := imported(t, fixtures(t))
	away := errors.New("connection refused")
	broken := &faulty{Store: h.store, errs: map[cas.Digest]error{cas.Of([]byte(fixtures(t)["trajectories/main/old-run-1.jsonl"])): away}}
	r := trajectory.NewReader(h.log, broken)
	if err := r.Refresh(t.Context(), h.b); !errors.Is(err, away) {
		t.Fatalf("refresh: %v", err)
	}
	broken.errs = nil
	if err := r.Refresh(t.Context(), h.b); err != nil || h.b.Index().Counts.Entries != 14 {
		t.Errorf("the second try: %v, %d entries, want all of them once", err, h.b.Index().Counts.Entries)
	}
	broken.errs = map[cas.Digest]error{cas.Of([]byte(fixtures(t)["trajectories/main/old-run-1.jsonl"])): cas.ErrCorrupt}
	b := trajectory.NewBuilder(cas.Scope{Namespace: story.Namespace, Session: story.Session})
	if err := r.Refresh(t.Context(), b); err != nil || !strings.Contains(fmt.Sprint(codes(b.Index().Notices)), "objectCorrupt") {
		t.Errorf("a damaged file: %v, notices %v", err, codes(b.Index().Notices))
	}
}
