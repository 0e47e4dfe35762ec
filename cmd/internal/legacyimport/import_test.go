package legacyimport

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/pkg/cas/fsstore"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/legacy"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/pkg/trajectory"
)

var scope = cas.Scope{Namespace: "team", Session: "0d6f2a54-7f0c-4c52-9d0e-6a3b1c8e5f27"}

const (
	journal = "trajectories/main/r.jsonl"
	good    = `{"agentId":"main","kind":"reasoning","responseId":"p","payload":{"text":"x"}}` + "\n"
)

func folder(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, content := range files {
		out[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return out
}

// stored is every file of every list, by path and bytes.
func stored(t *testing.T, store cas.Store) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := store.List(t.Context(), scope.In(cas.TreeManifests), func(ref cas.Ref) error {
		raw, err := store.Get(t.Context(), scope.In(cas.TreeManifests), cas.Ref{Digest: ref.Digest})
		if err != nil {
			return err
		}
		manifest, err := legacy.DecodeManifest(raw)
		for _, f := range manifest.Files {
			body, _, err := cas.GetBody(t.Context(), store, scope.In(cas.TreeFiles), f.Body, f.Size)
			if err != nil || cas.Of(body) != f.SHA256 {
				return fmt.Errorf("%s: %d bytes, %w", f.Path, len(body), err)
			}
			out[f.Path] = append(out[f.Path], string(body))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatIsRefused(t *testing.T) {
	payload := `{"text":"x"}`
	cases := map[string]struct {
		files map[string]string
		// want is said with file and line; empty when nothing is wrong.
		want string
	}{
		"a journal":                      {map[string]string{journal: good}, ""},
		"an unknown kind is no fault":    {map[string]string{journal: good + strings.Replace(good, "reasoning", "mood", 1)}, ""},
		"a line that is no JSON":         {map[string]string{journal: good + "oops\n"}, journal + ":2: malformed"},
		"half a line at the end":         {map[string]string{journal: good + good[:30]}, journal + ":2: the last line is incomplete"},
		"a line without an agent":        {map[string]string{journal: `{"kind":"body","payload":{"text":"x"}}`}, journal + ":1: "},
		"a segment in a journal":         {map[string]string{journal: `{"agentId":"main","channel":"body","text":"x"}` + "\n"}, journal + ":1: "},
		"segments":                       {map[string]string{"segments/a.json": "{\"agentId\":\"main\",\n\"channel\":\"body\",\"text\":\"x\"}"}, ""},
		"a segment without content":      {map[string]string{"segments/a.jsonl": `{"agentId":"main","channel":"body"}`}, "segments/a.jsonl:1: "},
		"a payload that is not there":    {map[string]string{journal: strings.Replace(good, `"payload":{"text":"x"}`, `"payloadRef":"`+cas.Of([]byte(payload)).String()+`"`, 1)}, journal + ":1: the payload"},
		"a payload that is there":        {map[string]string{journal: strings.Replace(good, `"payload":{"text":"x"}`, `"payloadRef":"`+cas.Of([]byte(payload)).String()+`"`, 1), "payloads/p.json": payload}, ""},
		"a payload that is not the kind": {map[string]string{journal: strings.Replace(good, `"payload":{"text":"x"}`, `"payloadRef":"`+cas.Of([]byte("{}")).String()+`"`, 1), "payloads/p.json": "{}"}, journal + ":1: malformed"},
		"a file of no known kind":        {map[string]string{journal: good, "notes.txt": "hello"}, "notes.txt: is neither"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			var said bytes.Buffer
			in := &importer{Store: store, Scope: scope, Folder: folder(c.files), Progress: &said}
			_, err := in.run(t.Context())
			if c.want == "" {
				if err != nil {
					t.Fatalf("refused: %v\n%s", err, said.String())
				}
				if got := stored(t, store); len(got) != len(c.files) {
					t.Errorf("stored are %v", got)
				}
				return
			}
			if err == nil || !strings.Contains(said.String(), c.want) {
				t.Errorf("error %v, said:\n%s\nwant %s", err, said.String(), c.want)
			}
			if got := stored(t, store); len(got) != 0 {
				t.Errorf("something was stored: %v", got)
			}
			accepting := &importer{Store: store, Scope: scope, Folder: folder(c.files), Progress: io.Discard, Accept: true}
			result, err := accepting.run(t.Context())
			if err != nil || !strings.Contains(result, "problems were accepted") {
				t.Errorf("with --accept-damaged: %q, %v", result, err)
			}
			for path, content := range c.files {
				if got := stored(t, store)[path]; len(got) != 1 || got[0] != content {
					t.Errorf("%s is stored as %q, want every byte of %q", path, got, content)
				}
			}
		})
	}
}

func TestAgainAndGrown(t *testing.T) {
	store := castest.NewCounting(memstore.New())
	run := func(files map[string]string, change ...func(*importer)) (string, error) {
		in := &importer{Store: store, Scope: scope, Folder: folder(files), Progress: io.Discard}
		for _, c := range change {
			c(in)
		}
		return in.run(t.Context())
	}
	dry := func(in *importer) { in.DryRun = true }
	if result, err := run(map[string]string{journal: good}, dry); err != nil || !strings.Contains(result, "would be stored") || store.Counts().Puts != 0 {
		t.Errorf("dry run: %q, %v, %d puts", result, err, store.Counts().Puts)
	}
	if result, err := run(map[string]string{journal: good}); err != nil || !strings.Contains(result, "1 files with 1 records") || !strings.Contains(result, "stored") {
		t.Errorf("first: %q, %v", result, err)
	}
	if result, err := run(map[string]string{journal: good}); err != nil || !strings.Contains(result, "nothing changed") || len(stored(t, store)[journal]) != 1 {
		t.Errorf("again: %q, %v", result, err)
	}
	if result, err := run(map[string]string{journal: good + good}); err != nil || len(stored(t, store)[journal]) != 2 {
		t.Errorf("grown: %q, %v, %v", result, err, stored(t, store))
	}
	for name, content := range map[string]string{"changed": strings.Replace(good, "x", "y", 1) + good + good, "shorter": good[:20]} {
		if result, err := run(map[string]string{journal: content}); err == nil {
			t.Errorf("%s: %q, want a refusal", name, result)
		}
	}
}

// away fails its puts after some.
type away struct {
	cas.Store
	left int
}

var errAway = errors.New("connection refused")

func (a *away) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	if a.left--; a.left < 0 {
		return cas.Ref{}, errAway
	}
	return a.Store.Put(ctx, scope, mediaType, data)
}

// TestBrokenOff lets the store go away at every put: nothing counts as imported until everything is there.
func TestBrokenOff(t *testing.T) {
	files := map[string]string{journal: good, "segments/a.jsonl": `{"agentId":"main","channel":"body","text":"x"}` + "\n"}
	for left := range 3 {
		store := memstore.New()
		in := &importer{Store: &away{Store: store, left: left}, Scope: scope, Folder: folder(files), Progress: io.Discard}
		if _, err := in.run(t.Context()); !errors.Is(err, errAway) {
			t.Errorf("after %d puts: %v", left, err)
		}
		if got := stored(t, store); len(got) != 0 {
			t.Errorf("after %d puts: %v counts as imported", left, got)
		}
		in = &importer{Store: store, Scope: scope, Folder: folder(files), Progress: io.Discard}
		if _, err := in.run(t.Context()); err != nil || len(stored(t, store)) != 2 {
			t.Errorf("the second try: %v", err)
		}
	}
}

func TestFlags(t *testing.T) {
	id := []string{"--namespace=team", "--session=" + scope.Session, "--store=fs"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no session":         {[]string{"--namespace=team", "."}, "--session"},
		"no folder":          {id, "folder"},
		"two folders":        {append(id, "a", "b"), "folder"},
		"a session's name":   {[]string{"--namespace=team", "--session=My.Session", "."}, "UID"},
		"an unknown flag":    {append(id, "--force", "."), "force"},
		"a folder not there": {append(id, "--store-dir="+t.TempDir(), filepath.Join(t.TempDir(), "none")), "none"},
		"no store":           {append(id, "."), "--store-dir"},
	} {
		err := Run(t.Context(), c.args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error about %s", name, err, c.want)
		}
	}
	var help bytes.Buffer
	if err := Run(t.Context(), []string{"--help"}, io.Discard, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "--namespace N") || !strings.Contains(help.String(), "-dry-run") {
		t.Errorf("help: %v\n%s", err, help.String())
	}
}

// TestFixturesToTrajectory imports the read model's fixtures with the command's own flags, and reads them.
func TestFixturesToTrajectory(t *testing.T) {
	fixtures := filepath.Join("..", "..", "..", "pkg", "trajectory", "testdata", "legacy")
	dir := t.TempDir()
	var out, progress bytes.Buffer
	args := []string{"--namespace=team", "--session=" + scope.Session, "--store=fs", "--store-dir=" + dir, fixtures}
	if err := Run(t.Context(), args, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	if got := strings.TrimSpace(out.String()); !strings.HasPrefix(got, "5 files with 15 records and ") || !strings.HasSuffix(got, "stored; 1 records are of a kind that is not known") {
		t.Errorf("result is %q\n%s", got, progress.String())
	}
	store, err := fsstore.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for path, contents := range stored(t, store) {
		raw, err := os.ReadFile(filepath.Join(fixtures, filepath.FromSlash(path)))
		if err != nil || len(contents) != 1 || contents[0] != string(raw) {
			t.Errorf("%s is not what it was: %v", path, err)
		}
	}
	b := trajectory.NewBuilder(scope)
	if err := trajectory.NewReader(memlog.New(), store).Refresh(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if ix := b.Index(); ix.Counts.Entries != 14 || len(ix.Agents) != 2 {
		t.Errorf("the trajectory has %d entries of %d agents", ix.Counts.Entries, len(ix.Agents))
	}
}
