package legacy

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/agentloop/agentloop/pkg/cas"
)

// Kind says what a file holds.
type Kind string

// The kinds of files. A file of another kind is kept and not read.
const (
	KindJournal  Kind = "journal"
	KindSegments Kind = "segments"
	KindPayload  Kind = "payload"
	KindOther    Kind = "other"
)

// KindOf says what a file is by its place: trajectories/<agent>/<run>.jsonl, segments/….jsonl or .json, payloads/….json.
func KindOf(name string) Kind {
	top, rest, _ := strings.Cut(name, "/")
	switch ext := path.Ext(rest); {
	case top == "trajectories" && ext == ".jsonl" && strings.Count(rest, "/") == 1:
		return KindJournal
	case top == "segments" && (ext == ".jsonl" || ext == ".json"):
		return KindSegments
	case top == "payloads" && ext == ".json":
		return KindPayload
	}
	return KindOther
}

// IsWhole says whether a file is one record and not one for each line.
func IsWhole(name string) bool { return path.Ext(name) == ".json" }

// ValidPath says whether name is the path of a file below the folder that was imported: relative, clean, and of
// printable characters.
func ValidPath(name string) bool {
	const maxPath = 1024
	return name != "" && len(name) <= maxPath && path.Clean(name) == name && !path.IsAbs(name) && name != ".." && !strings.HasPrefix(name, "../") &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == '\uFFFD' })
}

// ErrManifest is returned when bytes are no manifest that this version knows.
var ErrManifest = errors.New("no manifest of imported files")

// ManifestVersion is the version of the manifest's form.
const ManifestVersion = 1

// Manifest lists the files of one import, sorted by path.
type Manifest struct {
	V     int    `json:"v"`
	Files []File `json:"files"`
}

// File is one imported file.
type File struct {
	Path string `json:"path"`
	Kind Kind   `json:"kind"`
	// Size and SHA256 are of the file's bytes.
	Size   int64      `json:"size"`
	SHA256 cas.Digest `json:"sha256"`
	// Body names the bytes in the session's tree of imported files.
	Body cas.Ref `json:"body"`
}

// Encode returns the manifest's bytes: the same for the same files.
func (m Manifest) Encode() ([]byte, error) {
	m.V = ManifestVersion
	m.Files = slices.Clone(m.Files)
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return raw, nil
}

// DecodeManifest reads a manifest.
func DecodeManifest(raw []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if m.V != ManifestVersion {
		return Manifest{}, fmt.Errorf("%w: version %d", ErrManifest, m.V)
	}
	for _, file := range m.Files {
		if !ValidPath(file.Path) || file.SHA256.IsZero() || file.Size < 0 || file.Body.Validate() != nil {
			return Manifest{}, fmt.Errorf("%w: file %.100q", ErrManifest, file.Path)
		}
	}
	return m, nil
}
