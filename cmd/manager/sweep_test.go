package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// TestSweepCommand lets the objects on a real server grow old, by the times of its files, and sweeps.
func TestSweepCommand(t *testing.T) {
	w := storedStory(t)
	scope := cas.Scope{Namespace: story.Namespace, Session: story.Session}
	var refs []cas.Ref
	put := func(text string) {
		t.Helper()
		ref, err := w.store.Put(t.Context(), scope, cas.MediaBlob, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	put("left behind by a step that crashed")
	put("left behind, and put again by another step")
	past := time.Now().Add(-25 * time.Hour)
	err := filepath.WalkDir(filepath.Dir(w.s3.LogPath()), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !strings.Contains(path, story.Session) {
			return err
		}
		return os.Chtimes(path, past, past) //nolint:gosec // the folder is the test's own
	})
	if err != nil {
		t.Fatal(err)
	}
	put("left behind, and young")
	refs = refs[:2]
	put("left behind, and put again by another step") // is written anew: it is older than half of the grace
	there := func(ref cas.Ref) bool {
		_, err := w.store.Get(t.Context(), scope, ref)
		return err == nil
	}
	run := func(flags ...string) string {
		t.Helper()
		var out, log bytes.Buffer
		args := append([]string{"--namespace", story.Namespace, "--session", story.Session, "--settle", "10ms"}, w.flags...)
		if err := sweepCommand(t.Context(), append(args, flags...), &out, &log); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if out := run(); !strings.Contains(out, refs[0].Digest.String()) || !strings.Contains(out, `"young":2,"orphans":1,"removed":0`) || !there(refs[0]) {
		t.Errorf("dry run:\n%s", out)
	}
	if out := run("--apply"); !strings.Contains(out, `"orphans":1,"removed":1`) || there(refs[0]) || !there(refs[1]) {
		t.Errorf("applied:\n%s", out)
	}
	if out := run("--apply"); !strings.Contains(out, `"orphans":0`) {
		t.Errorf("again:\n%s", out)
	}
	if _, code, text := w.verified(t.Context(), t, story.Session); code != 0 {
		t.Errorf("verify: exit code %d\n%s", code, text)
	}
}

func TestSweepCommandSaysWhatItNeeds(t *testing.T) {
	session := []string{"--namespace", "team", "--session", story.Session}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no session":    {[]string{"--namespace", "team"}, "--session"},
		"a short grace": {append(session, "--grace", "1h"), "24h"},
		"no store":      {session, "--s3-endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, log bytes.Buffer
			if err := sweepCommand(t.Context(), c.args, &out, &log); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want something about %s", err, c.want)
			}
		})
	}
}
