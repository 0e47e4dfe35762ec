// Package vectors reads test vectors: JSON files, each an array of named cases, that state what a pure package must
// answer. It is imported by tests only.
//
// Guarantees: a file that cannot be read, a case without a name or with a name used twice in its file, and a long
// string that is described wrongly stop the test; Decode refuses keys that the target does not have, keys in another
// case and keys given twice; key order, numbers and escapes of a case are kept as the file has them.
package vectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"testing"
)

// Env is the environment variable that names a folder of further vectors, one sub-folder per area.
const Env = "AGENTLOOP_VECTORS"

// File is one vector file with its cases in the order of the file.
type File struct {
	// Path is where the file was read from.
	Path  string
	Cases []Case
}

// Case is one vector.
type Case struct {
	// Name is the case's "name", unique in its file.
	Name string
	// Raw is the whole case as JSON, "name" included, with long strings expanded.
	Raw json.RawMessage
}

// Files returns the vector files of an area (such as "budget") sorted by path: testdata/vectors/*.json of the package
// under test and, when Env is set, the *.json files of that folder's sub-folder area. It stops the test when there is no
// file in testdata/vectors or when Env names something that is not a folder.
func Files(t testing.TB, area string) []File {
	t.Helper()
	paths := glob(t, filepath.Join("testdata", "vectors"))
	if len(paths) == 0 {
		t.Fatalf("no vector files in testdata/vectors")
	}
	if dir := os.Getenv(Env); dir != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			t.Fatalf("%s=%s is not a folder (%v)", Env, dir, err)
		}
		paths = append(paths, glob(t, filepath.Join(dir, area))...)
	}
	files := make([]File, 0, len(paths))
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := Parse(raw)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		files = append(files, File{Path: path, Cases: cases})
	}
	return files
}

// Run calls check once per case of the area, as a subtest named "file/case".
func Run(t *testing.T, area string, check func(t *testing.T, raw json.RawMessage)) {
	t.Helper()
	for _, file := range Files(t, area) {
		t.Run(filepath.Base(file.Path), func(t *testing.T) {
			for _, c := range file.Cases {
				t.Run(c.Name, func(t *testing.T) { check(t, c.Raw) })
			}
		})
	}
}

func glob(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(paths)
	return paths
}

// Parse returns the cases of one vector file's content.
func Parse(raw []byte) ([]Case, error) {
	var raws []json.RawMessage
	if err := json.Unmarshal(raw, &raws); err != nil {
		return nil, fmt.Errorf("a vector file is an array of cases: %w", err)
	}
	cases := make([]Case, 0, len(raws))
	seen := map[string]bool{}
	for i, one := range raws {
		var head struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(one, &head); err != nil {
			return nil, fmt.Errorf("case %d: %w", i, err)
		}
		if head.Name == "" || seen[head.Name] {
			return nil, fmt.Errorf("case %d: name %q is empty or used before", i, head.Name)
		}
		seen[head.Name] = true
		expanded, err := Expand(one)
		if err != nil {
			return nil, fmt.Errorf("case %q: %w", head.Name, err)
		}
		cases = append(cases, Case{Name: head.Name, Raw: expanded})
	}
	return cases, nil
}

// Decode decodes raw into a pointer to a struct. Unknown keys, keys in another case, keys given twice and trailing bytes
// are errors; values whose type decodes itself are left to that type.
func Decode(raw json.RawMessage, into any) error {
	if err := checkKeys(raw, into); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("bytes after the value")
	}
	return nil
}
