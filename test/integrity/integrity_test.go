// Package integrity damages real stores: it writes a session to a NATS server with a file store and to an S3 server, breaks
// what is there with the servers' own means, and holds what the trajectory says about it.
package integrity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/s3store"
	"github.com/agentloop/agentloop/pkg/legacy"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/services"
	"github.com/agentloop/agentloop/test/viewer/story"
)

const subject = "agentloop.run." + story.Namespace + "." + story.Session + ".main"

// world is a session on real servers, and the means to break it.
type world struct {
	t      *testing.T
	story  *story.Story
	log    *natslog.Log
	stream jetstream.Stream
	js     jetstream.JetStream
	store  *s3store.Store
	bucket *minio.Client
	s3     *services.S3
	nats   *services.NATS
	// dir is the NATS server's folder.
	dir    string
	reader *trajectory.Reader
	b      *trajectory.Builder
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, s3: services.S3ForTest(t), dir: t.TempDir()}
	n, err := services.StartNATS(t.Context(), services.NATSOptions{Programs: services.Folder(t), Dir: w.dir})
	w.must(err)
	t.Cleanup(func() { _ = n.Kill() }) // the folder goes with the test
	s3 := w.s3
	w.nats = n
	nc, err := nats.Connect(n.URL)
	w.must(err)
	t.Cleanup(nc.Close)
	w.log, err = natslog.New(nc, natslog.Options{})
	w.must(err)
	w.must(w.log.Ensure(t.Context()))
	w.js, err = jetstream.New(nc)
	w.must(err)
	w.stream, err = w.js.Stream(t.Context(), natslog.DefaultStream)
	w.must(err)
	w.store, err = s3store.New(s3store.Options{Endpoint: s3.Endpoint, Region: s3.Region, Bucket: s3.Bucket, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey})
	w.must(err)
	t.Cleanup(w.store.Close)
	w.bucket, err = minio.New(s3.Host, &minio.Options{Creds: credentials.NewStaticV4(s3.AccessKey, s3.SecretKey, ""), Region: s3.Region})
	w.must(err)
	w.story, err = story.Sample(t.Context())
	w.must(err)
	w.copyStory()
	w.reader = trajectory.NewReader(w.log, w.store)
	w.b = trajectory.NewBuilder(w.story.Scope())
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// copyStory writes the story's bytes through the real adapters.
func (w *world) copyStory() {
	w.t.Helper()
	ctx, scope := w.t.Context(), w.story.Scope()
	w.must(w.story.Store.List(ctx, scope, func(ref cas.Ref) error {
		data, err := w.story.Store.Get(ctx, scope, cas.Ref{Digest: ref.Digest})
		if err == nil {
			_, err = w.store.Put(ctx, scope, cas.MediaBlob, data)
		}
		return err
	}))
	main := story.Stream(runevent.MainAgent)
	var head runevent.Head
	w.must(w.story.Log.Read(ctx, main, 0, func(r runevent.Record) error {
		var err error
		head, err = w.log.Append(ctx, main, head, r.Raw)
		return err
	}))
}

// index reads the session as the viewer does, anew when its streams are not what they were.
func (w *world) index() *trajectory.Index {
	w.t.Helper()
	err := w.reader.Refresh(w.t.Context(), w.b)
	if errors.Is(err, trajectory.ErrRewritten) {
		w.b = w.b.Successor()
		err = w.reader.Refresh(w.t.Context(), w.b)
	}
	w.must(err)
	return w.b.Index()
}

// rewrite changes the stream's messages on the server: it reads them, purges the subject, and publishes what change makes
// of them. The server lets nobody delete single messages of it.
func (w *world) rewrite(change func([]*nats.Msg) []*nats.Msg) {
	w.t.Helper()
	var messages []*nats.Msg
	ctx := w.t.Context()
	info, err := w.stream.Info(ctx)
	w.must(err)
	for at := info.State.FirstSeq; at <= info.State.LastSeq; at++ {
		raw, err := w.stream.GetMsg(ctx, at)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		w.must(err)
		for name := range raw.Header {
			if strings.HasPrefix(name, "Nats-") { // conditions of the first publish, and an id that the server would know
				raw.Header.Del(name)
			}
		}
		messages = append(messages, &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data})
	}
	w.must(w.stream.Purge(ctx, jetstream.WithPurgeSubject(subject)))
	for _, m := range change(messages) {
		_, err := w.js.PublishMsg(ctx, m)
		w.must(err)
	}
}

// said are notices in short.
func said(notices []trajectory.Notice) []string {
	out := []string{}
	for _, n := range notices {
		text := string(n.Code)
		if n.From > 0 {
			text += fmt.Sprintf(" %s %d-%d", n.Stream, n.From, n.To)
		}
		if n.EntryID != "" {
			text += " " + n.EntryID
		}
		out = append(out, text)
	}
	return out
}

// readOn holds that all entries can be opened and that the export is complete.
func (w *world) readOn(ix *trajectory.Index) string {
	w.t.Helper()
	timed, untimed := ix.All()
	for _, e := range append(timed, untimed...) {
		if _, err := w.reader.Detail(w.t.Context(), ix, e.ID, 0); err != nil {
			w.t.Errorf("detail of %s: %v", e.ID, err)
		}
	}
	var out bytes.Buffer
	records, err := w.reader.Export(w.t.Context(), ix, trajectory.Header{Session: 1}, trajectory.OneByOne, &out)
	if err != nil || records != len(timed)+len(untimed) || !strings.Contains(out.String(), `{"type":"complete"`) {
		w.t.Errorf("the export has %d records, %v; want %d and its last line", records, err, len(timed)+len(untimed))
	}
	return out.String()
}

func drop(from, to int) func([]*nats.Msg) []*nats.Msg {
	return func(m []*nats.Msg) []*nats.Msg { return slices.Delete(m, from-1, to) }
}

// replace changes the bytes of one record; headers stay.
func replace(number int, change func([]byte) []byte) func([]*nats.Msg) []*nats.Msg {
	return func(m []*nats.Msg) []*nats.Msg {
		m[number-1].Data = change(m[number-1].Data)
		return m
	}
}

func TestDamagedStreams(t *testing.T) {
	w := newWorld(t)
	whole := w.index()
	if len(whole.Notices) > 0 || whole.Counts.Entries != 23 {
		t.Fatalf("the story has %d entries and notices %v before anything is broken", whole.Counts.Entries, said(whole.Notices))
	}
	w.readOn(whole)
	var intact []*nats.Msg
	w.rewrite(func(m []*nats.Msg) []*nats.Msg { intact = slices.Clone(m); return m })
	end := len(intact)
	unknown := func(raw []byte) []byte {
		return bytes.Replace(raw, []byte(`"type":"message.user"`), []byte(`"type":"message.robot"`), 1)
	}
	cases := map[string]struct {
		change  func([]*nats.Msg) []*nats.Msg
		notices []string
		entries int
	}{
		"nothing":           {func(m []*nats.Msg) []*nats.Msg { return m }, []string{}, 23},
		"a record is gone":  {drop(2, 2), []string{"sequenceGap run/main 2-2"}, 22},
		"the beginning is":  {drop(1, 3), []string{"sequenceGap run/main 1-3"}, 20},
		"the end is":        {drop(end-1, end), []string{fmt.Sprintf("truncatedStream run/main %d-%d", end-1, end)}, 21},
		"all but one are":   {drop(2, end), []string{fmt.Sprintf("truncatedStream run/main 2-%d", end)}, 1},
		"the stream is":     {drop(1, end), []string{fmt.Sprintf("truncatedStream run/main 1-%d", end)}, 0},
		"one was replaced":  {replace(2, func(raw []byte) []byte { return bytes.Replace(raw, []byte("40 + 2"), []byte("40 + 3"), 1) }), []string{"brokenLink run/main 3-3 run.main.3"}, 23},
		"one is damaged":    {replace(2, func(raw []byte) []byte { return raw[:len(raw)/2] }), []string{"damagedRecord run/main 2-2", "brokenLink run/main 3-3 run.main.3"}, 22},
		"one is newer":      {replace(2, unknown), []string{"unknownRecord run/main 2-2 run.main.2", "brokenLink run/main 3-3 run.main.3"}, 23},
		"two changed place": {func(m []*nats.Msg) []*nats.Msg { m[1], m[2] = m[2], m[1]; return m }, nil, 23},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.rewrite(func([]*nats.Msg) []*nats.Msg { return c.change(copies(intact)) })
			w.b = w.b.Successor() // knows how long the streams were, and reads them from their beginning
			ix := w.index()
			if c.notices == nil {
				if len(ix.Notices) == 0 {
					t.Error("nothing is said")
				}
			} else if diff := cmp.Diff(c.notices, said(ix.Notices)); diff != "" {
				t.Errorf("notices (-want +got):\n%s", diff)
			}
			if ix.Counts.Entries != c.entries {
				t.Errorf("%d entries are left, want %d", ix.Counts.Entries, c.entries)
			}
			if text := w.readOn(ix); len(ix.Notices) > 0 && !strings.Contains(text, string(ix.Notices[0].Code)) {
				t.Error("the export does not say it")
			}
		})
	}
}

// TestMoreDamageThanIsListed breaks a long stretch of a stream: a thousand notices are listed, and how many more there are.
func TestMoreDamageThanIsListed(t *testing.T) {
	w := newWorld(t)
	w.rewrite(func(m []*nats.Msg) []*nats.Msg {
		for range 1100 {
			header := nats.Header{}
			header.Set(natslog.HeaderSequence, fmt.Sprint(len(m)+1))
			m = append(m, &nats.Msg{Subject: subject, Header: header, Data: []byte(`{"half":`)})
		}
		return m
	})
	ix := w.index()
	n := len(ix.Notices)
	if n != 1001 || ix.Notices[0].Code != trajectory.CodeDamaged || ix.Notices[n-1].Code != trajectory.CodeMore || !strings.HasPrefix(ix.Notices[n-1].Message, "100 more") {
		t.Errorf("%d notices, the last one is %+v", n, ix.Notices[n-1])
	}
	w.readOn(ix)
}

func copies(messages []*nats.Msg) []*nats.Msg {
	out := make([]*nats.Msg, len(messages))
	for i, m := range messages {
		out[i] = &nats.Msg{Subject: m.Subject, Header: m.Header, Data: bytes.Clone(m.Data)}
	}
	return out
}

// TestAFlippedByteOnDisk stops the NATS server and changes one record in its file. The server does not hand out what its
// checksum does not fit, so that the record is missing.
func TestAFlippedByteOnDisk(t *testing.T) {
	w := newWorld(t)
	whole := w.index()
	w.must(w.nats.Stop())
	flipped := 0
	root, err := os.OpenRoot(w.dir)
	w.must(err)
	w.must(fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".blk" {
			return err
		}
		raw, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		if at := bytes.Index(raw, []byte("How much is 40 + 2?")); at >= 0 {
			raw[at]++
			flipped++
		}
		return root.WriteFile(name, raw, 0o600)
	}))
	w.must(root.Close())
	if flipped != 1 {
		t.Fatalf("the record stands in %d files", flipped)
	}
	w.must(w.nats.Start(t.Context()))
	w.b = w.b.Successor()
	ix := w.index()
	if len(ix.Notices) == 0 || ix.Counts.Entries >= whole.Counts.Entries {
		t.Errorf("%d of %d entries are left, notices %v", ix.Counts.Entries, whole.Counts.Entries, said(ix.Notices))
	}
	for _, n := range ix.Notices {
		if n.From == 0 || n.Stream != "run/main" {
			t.Errorf("notice %+v does not say where", n)
		}
	}
	w.readOn(ix)
}

// key is where an object stands in the bucket.
func (w *world) key(digest cas.Digest) string {
	w.t.Helper()
	key, err := cas.Key(w.story.Scope(), digest)
	w.must(err)
	return key
}

func (w *world) stored(key string) []byte {
	w.t.Helper()
	object, err := w.bucket.GetObject(w.t.Context(), w.s3.Bucket, key, minio.GetObjectOptions{})
	w.must(err)
	defer object.Close()
	var buf bytes.Buffer
	_, err = buf.ReadFrom(object)
	w.must(err)
	return buf.Bytes()
}

func (w *world) overwrite(key string, data []byte) {
	w.t.Helper()
	_, err := w.bucket.PutObject(w.t.Context(), w.s3.Bucket, key, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{})
	w.must(err)
}

func TestDamagedObjects(t *testing.T) {
	w := newWorld(t)
	ix := w.index()
	d, err := w.reader.Detail(t.Context(), ix, "run.main.13", 0)
	w.must(err)
	contextKey, stateKey := w.key(d.Input.ContextRef.Digest), w.key(d.AgentState.Ref.Digest)
	sectionsKey, messageKey := w.key(d.AgentState.Sections.Digest), w.key(d.Input.Messages[0].Digest)
	other := w.stored(stateKey)
	cases := map[string]struct {
		key    string
		damage func(key string, stored []byte)
		codes  []string
	}{
		"the input is gone":            {contextKey, func(key string, _ []byte) { w.remove(key) }, []string{"objectMissing"}},
		"the input was changed":        {contextKey, func(key string, raw []byte) { raw[len(raw)/2] ^= 1; w.overwrite(key, raw) }, []string{"objectCorrupt"}},
		"the input was cut":            {contextKey, func(key string, raw []byte) { w.overwrite(key, raw[:len(raw)-5]) }, []string{"objectCorrupt"}},
		"another object in its place":  {contextKey, func(key string, _ []byte) { w.overwrite(key, other) }, []string{"objectCorrupt"}},
		"no envelope":                  {contextKey, func(key string, _ []byte) { w.overwrite(key, []byte("hello")) }, []string{"objectCorrupt"}},
		"the system prompt is gone":    {sectionsKey, func(key string, _ []byte) { w.remove(key) }, []string{"objectMissing", "sourceUnavailable"}},
		"a message was changed":        {messageKey, func(key string, raw []byte) { raw[len(raw)-1] ^= 1; w.overwrite(key, raw) }, []string{"objectCorrupt"}},
		"the committed state is gone":  {stateKey, func(key string, _ []byte) { w.remove(key) }, []string{"objectMissing"}},
		"nothing is wrong after a fix": {contextKey, func(string, []byte) {}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w.t = t
			intact := w.stored(c.key)
			t.Cleanup(func() { w.restore(c.key, intact) })
			c.damage(c.key, bytes.Clone(intact))
			w.reader = trajectory.NewReader(w.log, w.store) // nothing remembered
			d, err := w.reader.Detail(t.Context(), ix, "run.main.13", 0)
			w.must(err)
			var codes []string
			for _, n := range d.Notices {
				codes = append(codes, string(n.Code))
				if n.EntryID != "run.main.13" {
					t.Errorf("the notice does not name its entry: %+v", n)
				}
			}
			if !slices.Equal(codes, c.codes) && !subset(c.codes, codes) {
				t.Errorf("notices %v, want %v", codes, c.codes)
			}
			if len(c.codes) == 0 && len(codes) > 0 {
				t.Errorf("notices %v for a store that is whole", codes)
			}
			w.readOn(ix)
		})
	}
}

// subset says whether each code is among those that were said: one object may be missing in two places.
func subset(want, got []string) bool {
	for _, code := range want {
		if !slices.Contains(got, code) {
			return false
		}
	}
	return len(want) > 0 && len(slices.Compact(slices.Sorted(slices.Values(got)))) == len(want)
}

func (w *world) remove(key string) {
	w.t.Helper()
	w.must(w.bucket.RemoveObject(w.t.Context(), w.s3.Bucket, key, minio.RemoveObjectOptions{}))
}

// restore puts an object back after a case, when its context has ended.
func (w *world) restore(key string, data []byte) {
	_, err := w.bucket.PutObject(context.WithoutCancel(w.t.Context()), w.s3.Bucket, key, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{})
	if err != nil {
		w.t.Error(err)
	}
}

// TestObjectsOfOtherFormats appends records that name objects of a newer format, and one that names another request's.
func TestObjectsOfOtherFormats(t *testing.T) {
	w := newWorld(t)
	ctx, scope, main := t.Context(), w.story.Scope(), story.Stream(runevent.MainAgent)
	newer, err := w.store.Put(ctx, scope, cas.MediaContext, []byte(`{"v":9,"new":true}`))
	w.must(err)
	d, err := w.reader.Detail(ctx, w.index(), "run.main.4", 0)
	w.must(err)
	put := func(ctx context.Context, mediaType string, data []byte) (cas.Ref, error) {
		return w.store.Put(ctx, scope, mediaType, data)
	}
	evidence := runevent.Evidence{AgentID: "main", AgentRunID: "u9", RequestExecutionID: "r9", Turn: 1, ContextRef: &newer}
	for _, event := range []runevent.Event{
		{Type: runevent.TypeRecord, Kind: runevent.KindContextCaptured, Purpose: runevent.PurposeMain, Evidence: evidence},
		{Type: runevent.TypeRecord, Kind: runevent.KindModelCompleted, Purpose: runevent.PurposeMain, PayloadRef: d.Output.ActionRef, Evidence: evidence},
	} {
		writer, _, err := runevent.OpenWriter(ctx, w.log, runevent.WriterConfig{Stream: main, Now: w.story.Now, Put: put})
		w.must(err)
		_, _, err = writer.Append(ctx, event)
		w.must(err)
	}
	ix := w.index()
	timed, _ := ix.All()
	for i, want := range []string{"objectUnknown", "objectMismatch"} {
		id := timed[len(timed)-2+i].ID
		d, err := w.reader.Detail(ctx, ix, id, 0)
		if err != nil || !slices.Contains(said(d.Notices), want+" "+id) {
			t.Errorf("%s: %v, notices %v, want %s", id, err, said(d.Notices), want)
		}
	}
	w.readOn(ix)
}

// TestImportedFilesOnRealStores imports files that are damaged, and damages one that was not.
func TestImportedFilesOnRealStores(t *testing.T) {
	w := newWorld(t)
	files := map[string]string{
		"trajectories/main/a.jsonl": `{"agentId":"main","kind":"reasoning","responseId":"p","sequence":1,"payload":{"text":"x"}}` + "\nnonsense\n" +
			`{"agentId":"main","kind":"mood","sequence":4,"payload":{}}` + "\n" + `{"agentId":"main","kind":"rea`,
		"trajectories/other/b.jsonl": `{"agentId":"other","agentRunId":"r","requestExecutionId":"e","kind":"toolCall","payload":{"callId":"c","toolName":"n","parameters":{"a":1}}}` + "\n",
		"segments/c.json":            `{"agentId":"other","agentRunId":"r","toolCalls":[{"callId":"c","toolName":"n","parameters":{"a":2}}]}`,
	}
	bodies := map[string]cas.Ref{}
	var manifest legacy.Manifest
	for name, content := range files {
		body, err := w.store.Put(t.Context(), w.story.Scope().In(cas.TreeFiles), cas.MediaBlob, []byte(content))
		w.must(err)
		bodies[name] = body
		manifest.Files = append(manifest.Files, legacy.File{Path: name, Kind: legacy.KindOf(name), Size: body.Size, SHA256: body.Digest, Body: body})
	}
	raw, err := manifest.Encode()
	w.must(err)
	_, err = w.store.Put(t.Context(), w.story.Scope().In(cas.TreeManifests), cas.MediaImport, raw)
	w.must(err)
	ix := w.index()
	var codes []string
	for _, n := range ix.Notices {
		if n.Code != trajectory.CodeImported {
			codes = append(codes, fmt.Sprintf("%s %s", n.Code, n.Stream))
		}
	}
	const a = " trajectories/main/a.jsonl"
	want := []string{"damagedRecord" + a, "incompleteTail" + a, "parametersDisagree segments/c.json", "sequenceGap" + a, "unknownRecord" + a}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(codes))); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	if ix.Counts.Entries != 23+4 || len(ix.Agents) != 2 {
		t.Errorf("%d entries of %d agents", ix.Counts.Entries, len(ix.Agents))
	}
	w.readOn(ix)
	key, err := cas.Key(w.story.Scope().In(cas.TreeFiles), bodies["segments/c.json"].Digest)
	w.must(err)
	w.remove(key)
	w.reader, w.b = trajectory.NewReader(w.log, w.store), trajectory.NewBuilder(w.story.Scope())
	if ix = w.index(); !slices.Contains(said(ix.Notices), "objectMissing") || ix.Counts.Entries != 23+3 {
		t.Errorf("without a file: %d entries, notices %v", ix.Counts.Entries, said(ix.Notices))
	}
	w.readOn(ix)
}

// TestStreamsOfSubagentsAndTools writes what a subagent does to its own stream, and what its tool prints to the tool's.
func TestStreamsOfSubagentsAndTools(t *testing.T) {
	w := newWorld(t)
	const agent = "finder-0a1b2c3d"
	sub, printed := story.Stream(agent), story.Stream("call-1-a1")
	printed.Class = runevent.ClassOut
	put := func(ctx context.Context, mediaType string, data []byte) (cas.Ref, error) {
		return w.store.Put(ctx, w.story.Scope(), mediaType, data)
	}
	add := func(stream runevent.Stream, event runevent.Event) {
		t.Helper()
		writer, _, err := runevent.OpenWriter(t.Context(), w.log, runevent.WriterConfig{Stream: stream, Now: w.story.Now, Put: put})
		w.must(err)
		_, _, err = writer.Append(t.Context(), event)
		w.must(err)
	}
	of := func(agent string) runevent.Evidence {
		return runevent.Evidence{AgentID: agent, AgentRunID: "u-" + agent, RequestExecutionID: "r1", Turn: 1, ContextRef: &cas.Ref{Digest: cas.Of([]byte(agent)), Size: 7}}
	}
	call := func(kind runevent.Type, text string) runevent.Event {
		return runevent.Event{Type: kind, CallID: "call-1", Name: "build", Attempt: 1, Text: text, Evidence: of(agent)}
	}
	add(story.Stream(runevent.MainAgent), runevent.Event{Type: runevent.TypeSubagentStarted, Agent: agent, CallID: "call-9", RunName: "child", Evidence: of("main")})
	add(sub, runevent.Event{Type: runevent.TypeRunStarted, RunName: "child", Attempt: 1, Evidence: of(agent)})
	add(sub, call(runevent.TypeToolCall, ""))
	add(sub, call(runevent.TypeToolStarted, ""))
	w.index() // what comes later is an increment
	add(printed, call(runevent.TypeToolOutput, "compiling\n"))
	add(printed, call(runevent.TypeToolOutput, "done\n"))
	add(sub, call(runevent.TypeToolResult, ""))
	ix := w.index()
	if len(ix.Notices) > 0 || len(ix.Agents) != 2 || ix.Agents[1].ID != agent || ix.Agents[1].Kind != "subagent" || ix.Agents[1].Parent != "main" || ix.Agents[1].Runs != 1 {
		t.Errorf("agents are %+v, notices %v", ix.Agents, said(ix.Notices))
	}
	timed, _ := ix.All()
	var tool, output trajectory.Entry
	for _, e := range timed {
		switch {
		case e.Agent == agent && e.Type == trajectory.TypeTool:
			tool = e
		case e.Event == string(runevent.TypeToolOutput):
			output = e
		}
	}
	if output.Agent != agent || !output.Hidden || tool.ID == "" {
		t.Errorf("the tool is %+v, its output %+v", tool, output)
	}
	d, err := w.reader.Detail(t.Context(), ix, tool.ID, 0)
	if err != nil || d.Tool.Output == nil || d.Tool.Output.Text != "compiling\ndone\n" {
		t.Errorf("the tool's detail is %+v, %v", d.Tool, err)
	}
	if text := w.readOn(ix); !strings.Contains(text, `"stream":"out/call-1-a1"`) || !strings.Contains(text, `"stream":"run/`+agent+`"`) {
		t.Error("the export does not have the records of both streams")
	}
}
