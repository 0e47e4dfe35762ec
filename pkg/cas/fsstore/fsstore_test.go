package fsstore

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/pkg/cas/codec"
)

var scope = cas.Scope{Namespace: "ns", Session: "session-1"}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, text string) cas.Ref {
	t.Helper()
	ref, err := s.Put(t.Context(), scope, cas.MediaBlob, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func pathOf(t *testing.T, s *Store, ref cas.Ref) string {
	t.Helper()
	path, err := s.path(scope, ref.Digest)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConformance(t *testing.T) {
	t.Run("each test its own folder", func(t *testing.T) {
		castest.Run(t, func(t *testing.T) cas.Store { return open(t, t.TempDir()) })
	})
	t.Run("many stores over one folder", func(t *testing.T) {
		dir := t.TempDir()
		castest.Run(t, func(t *testing.T) cas.Store { return open(t, dir) })
	})
}

// filesBelow lists the regular files below dir.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rest, err := filepath.Rel(dir, path)
		files = append(files, filepath.ToSlash(rest))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestLayout(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	text := strings.Repeat("stored as the S3 store does it ", 50)
	ref := put(t, s, text)
	put(t, s, text)
	hex := ref.Digest.Hex()
	key := "v1/ns/session-1/cas/sha256/" + hex[:2] + "/" + hex[2:4] + "/" + hex
	if diff := cmp.Diff([]string{key}, filesBelow(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	stored, err := os.ReadFile(filepath.Join(dir, key))
	if err != nil {
		t.Fatal(err)
	}
	want, err := codec.Encode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stored, want) {
		t.Error("the file is not the object's envelope")
	}
	info, err := os.Stat(filepath.Join(dir, key))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		t.Errorf("others may use the file: mode %v", info.Mode())
	}
}

func TestDamagedFile(t *testing.T) {
	text := "words that matter, " + strings.Repeat("and more of them ", 60)
	damage := map[string]func(stored []byte) []byte{
		"a flipped bit in the payload": func(b []byte) []byte { b[len(b)-3] ^= 4; return b },
		"a flipped bit in the header":  func(b []byte) []byte { b[1] ^= 1; return b },
		"a flipped bit in the size":    func(b []byte) []byte { b[8] ^= 1; return b },
		"a cut file":                   func(b []byte) []byte { return b[:len(b)/2] },
		"an empty file":                func([]byte) []byte { return nil },
		"zeroes":                       func(b []byte) []byte { return make([]byte, len(b)) },
		"another object": func([]byte) []byte {
			other, err := codec.Encode([]byte(strings.ToUpper(text)))
			if err != nil {
				panic(err)
			}
			return other
		},
	}
	for name, change := range damage {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			ref := put(t, s, text)
			path := pathOf(t, s, ref)
			stored, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			damaged := change(stored)
			if err := os.WriteFile(path, damaged, fileMode); err != nil {
				t.Fatal(err)
			}
			for _, asked := range []cas.Ref{ref, {Digest: ref.Digest}} {
				if _, err := s.Get(t.Context(), scope, asked); !errors.Is(err, cas.ErrCorrupt) && !errors.Is(err, cas.ErrTooLarge) {
					t.Errorf("get: %v", err)
				}
			}
			kept, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("the damaged file: %v", err)
			}
			if !bytes.Equal(kept, damaged) {
				t.Error("reading changed the damaged file")
			}
			put(t, s, text)
			got, err := s.Get(t.Context(), scope, ref)
			if err != nil || string(got) != text {
				t.Errorf("after another put: %d bytes, error %v", len(got), err)
			}
		})
	}
}

func TestCorruptIsNotMissing(t *testing.T) {
	s := open(t, t.TempDir())
	ref := put(t, s, "text")
	path := pathOf(t, s, ref)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, dirMode); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(t.Context(), scope, ref)
	if err == nil || cas.IsFinal(err) {
		t.Errorf("a folder under the object's name: %v, want an error of unknown outcome", err)
	}
	if _, err := s.Put(t.Context(), scope, cas.MediaBlob, []byte("text")); err == nil {
		t.Error("a put that cannot give the file its name succeeds")
	}
	if left := filesBelow(t, filepath.Join(s.root, tempDir)); len(left) != 0 {
		t.Errorf("a failed put leaves %v", left)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ref := put(t, s, "survives")
	stale, young := filepath.Join(dir, tempDir, "stale"), filepath.Join(dir, tempDir, "young")
	for _, name := range []string{stale, young} {
		if err := os.WriteFile(name, []byte("half an obj"), fileMode); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * staleTemp)
	if err := os.Chtimes(stale, old, old); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	if diff := cmp.Diff([]string{"young"}, filesBelow(t, filepath.Join(dir, tempDir))); diff != "" {
		t.Errorf("temporary files (-want +got):\n%s", diff)
	}
	if got, err := again.Get(t.Context(), scope, ref); err != nil || string(got) != "survives" {
		t.Errorf("an object of the store before: %q, error %v", got, err)
	}
	if _, err := Open(filepath.Join(dir, tempDir, "young")); err == nil {
		t.Error("a file is opened as a store")
	}
}

func TestListPassesOverOtherFiles(t *testing.T) {
	s := open(t, t.TempDir())
	ref := put(t, s, "an object")
	dir := filepath.Dir(pathOf(t, s, ref))
	for _, name := range []string{"README", ref.Digest.Hex() + ".bak", cas.Of([]byte("elsewhere")).Hex()} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, fileMode); err != nil {
			t.Fatal(err)
		}
	}
	var got []cas.Digest
	if err := s.List(t.Context(), scope, func(r cas.Ref) error { got = append(got, r.Digest); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0] != ref.Digest {
		t.Errorf("listed %v, want %v alone", got, ref.Digest)
	}
}

func TestPutMakesOldFilesYoung(t *testing.T) {
	s := open(t, t.TempDir())
	ref := put(t, s, "old words")
	path := pathOf(t, s, ref)
	old := time.Now().Add(-2 * refreshAfter)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	put(t, s, "old words")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if age := time.Since(info.ModTime()); age > refreshAfter {
		t.Errorf("the file is still %v old", age)
	}
}

func TestPutAfterForeignPurge(t *testing.T) {
	dir := t.TempDir()
	writer, purger := open(t, dir), open(t, dir)
	for range 3 {
		ref := put(t, writer, "comes back")
		if err := purger.Purge(t.Context(), scope); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Get(t.Context(), scope, ref); !errors.Is(err, cas.ErrNotFound) {
			t.Errorf("after the purge: %v", err)
		}
	}
}

func TestProcessesShareAFolder(t *testing.T) {
	dir := t.TempDir()
	stores := []*Store{open(t, dir), open(t, dir), open(t, dir)}
	var wg sync.WaitGroup
	for i := range 60 {
		s := stores[i%3]
		text := strings.Repeat(string(rune('a'+i%5)), 2000)
		wg.Go(func() {
			ref, err := s.Put(t.Context(), scope, cas.MediaBlob, []byte(text))
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := stores[(i+1)%3].Get(t.Context(), scope, ref); err != nil || string(got) != text {
				t.Errorf("through another store: %d bytes, error %v", len(got), err)
			}
		})
	}
	wg.Wait()
	if left := filesBelow(t, filepath.Join(dir, tempDir)); len(left) != 0 {
		t.Errorf("temporary files are left: %v", left)
	}
	if got := filesBelow(t, filepath.Join(dir, "v1")); len(got) != 5 {
		t.Errorf("%d files for 5 objects: %v", len(got), got)
	}
}

func BenchmarkPut(b *testing.B) {
	s, err := Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	var n uint64
	for b.Loop() {
		n++
		if _, err := s.Put(b.Context(), scope, cas.MediaBlob, castest.Noise(4096, n)); err != nil {
			b.Fatal(err)
		}
	}
}
