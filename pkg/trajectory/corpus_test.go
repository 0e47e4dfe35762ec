package trajectory_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/trajectory"
)

// credentialShape is a document as it is found in the world. In the corpus of what is redacted every credential has "Pl4nted" in it, and
// everything that must stay has "Kept"; with Whole a text goes as a whole.
type credentialShape struct {
	Name  string          `json:"name"`
	In    json.RawMessage `json:"in"`
	Whole bool            `json:"whole"`
}

func credentialShapes(t testing.TB, name string) []credentialShape {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "redaction", name))
	if err != nil {
		t.Fatal(err)
	}
	var all []credentialShape
	names := map[string]bool{}
	for line := range bytes.Lines(raw) {
		var s credentialShape
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if s.Name == "" || names[s.Name] {
			t.Fatalf("the shape %q has no name of its own", s.Name)
		}
		names[s.Name] = true
		all = append(all, s)
	}
	return all
}

// The corpus may grow, not shrink.
const minRedacted, minUntouched = 120, 50

// TestShapesThatAreRedacted goes through credentials in the forms in which programs write them.
func TestShapesThatAreRedacted(t *testing.T) {
	all := credentialShapes(t, "redacted.jsonl")
	if len(all) < minRedacted {
		t.Errorf("%d shapes, want %d or more", len(all), minRedacted)
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			got := redact(t, s.In)
			if bytes.Contains(bytes.ToLower(got), []byte("pl4nted")) {
				t.Errorf("a credential came through: %s", got)
			}
			if !bytes.Contains(bytes.ToLower(s.In), []byte("pl4nted")) || !bytes.Contains(got, []byte(trajectory.Redacted)) {
				t.Error("there is no credential in it")
			}
			if was, is := bytes.Count(s.In, []byte("Kept")), bytes.Count(got, []byte("Kept")); was != is && !s.Whole {
				t.Errorf("%d of %d other values are left: %s", is, was, got)
			}
		})
	}
}

// TestShapesThatAreLeft goes through what only looks like a credential.
func TestShapesThatAreLeft(t *testing.T) {
	all := credentialShapes(t, "untouched.jsonl")
	if len(all) < minUntouched {
		t.Errorf("%d shapes, want %d or more", len(all), minUntouched)
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			if diff := cmp.Diff(string(s.In), string(redact(t, s.In))); diff != "" {
				t.Errorf("changed (-was +is):\n%s", diff)
			}
		})
	}
}

// redact redacts, and checks what holds for every document.
func redact(t *testing.T, raw []byte) []byte {
	t.Helper()
	before := bytes.Clone(raw)
	got, err := trajectory.Redact(raw)
	if err != nil || !json.Valid(got) {
		t.Fatalf("%v: %s", err, got)
	}
	if !bytes.Equal(before, raw) {
		t.Error("the input was changed")
	}
	if again, err := trajectory.Redact(got); err != nil || !bytes.Equal(again, got) {
		t.Errorf("redacted again it is %s, %v", again, err)
	}
	return got
}
