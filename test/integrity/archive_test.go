package integrity

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"

	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/audit"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// over reads the world's log with its archives.
func (w *world) over() *archive.Log {
	w.t.Helper()
	log, err := archive.Over(w.log, w.store, nil)
	w.must(err)
	return log
}

// archived archives the session and removes what is in the files.
func (w *world) archived() archive.Result {
	w.t.Helper()
	a := &archive.Archiver{Log: w.log, Trimmer: w.log, Store: w.store, Archives: w.store}
	result, err := a.Session(w.t.Context(), w.story.Scope(), true)
	w.must(err)
	return result
}

// audited are the codes that an audit of the session gives.
func (w *world) audited() map[audit.Code]int64 {
	w.t.Helper()
	a := &audit.Audit{Log: w.over(), Store: w.store, Archives: w.store, Scope: w.story.Scope(), Report: func(audit.Problem) error { return nil }}
	sum, err := a.Run(w.t.Context())
	w.must(err)
	return sum.Codes
}

// TestArchivesOnRealServers wants the trajectory, its export and an audit to say the same before and after.
func TestArchivesOnRealServers(t *testing.T) {
	w := newWorld(t)
	exported := w.readOn(w.index())
	result := w.archived()
	if len(result.Files) != 2 || result.Removed != result.Entries-2 {
		t.Errorf("%+v", result)
	}
	info, err := w.stream.Info(t.Context())
	w.must(err)
	if info.State.Msgs != 2 {
		t.Errorf("%d messages are left on the server, want 2", info.State.Msgs)
	}
	w.readOn(w.index()) // an index that was made before: it reads removed entries, though it was not told of archives
	w.reader, w.b = trajectory.NewReader(w.over(), w.store), trajectory.NewBuilder(w.story.Scope())
	ix := w.index()
	if diff := cmp.Diff([]string{}, said(ix.Notices)); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(exported, w.readOn(ix)); diff != "" {
		t.Errorf("the export is another one (-want +got):\n%s", diff)
	}
	if codes := w.audited(); len(codes) > 0 {
		t.Errorf("the audit says %v", codes)
	}

	writer, _, err := runevent.OpenWriter(t.Context(), w.log, runevent.WriterConfig{Stream: story.Stream(runevent.MainAgent), Now: w.story.Now})
	w.must(err)
	for _, event := range []runevent.Type{runevent.TypeRunStarted, runevent.TypeRunFailed} {
		_, _, err = writer.Append(t.Context(), runevent.Event{Type: event, Evidence: runevent.Evidence{AgentID: "main", AgentRunID: "late-run"}})
		w.must(err)
	}
	if again := w.archived(); len(again.Files) != 1 || again.Entries != 2 {
		t.Errorf("the next run: %+v", again)
	}
	w.readOn(w.index())

	key := "v1/" + story.Namespace + "/" + story.Session + "/archive/" + result.Files[0]
	intact := w.stored(key)
	w.overwrite(key, append(bytes.Clone(intact[:len(intact)/2]), 'x'))
	if codes := w.audited(); codes[audit.CodeArchive] != 1 || codes[audit.CodeGap] != 1 {
		t.Errorf("a damaged file: the audit says %v", codes)
	}
	w.must(w.bucket.RemoveObject(t.Context(), w.s3.Bucket, key, minio.RemoveObjectOptions{}))
	if codes := w.audited(); codes[audit.CodeGap] != 1 {
		t.Errorf("a file that is gone: the audit says %v", codes)
	}
	w.reader, w.b = trajectory.NewReader(w.over(), w.store), trajectory.NewBuilder(w.story.Scope())
	if notices := said(w.index().Notices); len(notices) != 1 {
		t.Errorf("a file that is gone: the trajectory says %v", notices)
	}
	w.overwrite(key, intact)
	if codes := w.audited(); len(codes) > 0 {
		t.Errorf("the file is back: the audit says %v", codes)
	}

	w.must(w.log.Purge(t.Context(), story.Namespace, story.Session))
	w.must(w.store.Purge(t.Context(), w.story.Scope()))
	for range w.bucket.ListObjects(t.Context(), w.s3.Bucket, minio.ListObjectsOptions{Recursive: true}) {
		t.Error("a purge leaves objects behind")
	}
}
