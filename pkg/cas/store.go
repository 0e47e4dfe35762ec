package cas

import (
	"context"
	"errors"
	"fmt"
)

// MaxObject is the largest decoded object in bytes. Larger bodies are stored as a list object of parts (see Body).
const MaxObject = 8 << 20

// ErrNotFound is returned when the object is not in the store.
var ErrNotFound = errors.New("object not found")

// ErrCorrupt is returned when stored bytes do not have the digest, size or envelope that they should have. Nothing is
// ever deleted because of it.
var ErrCorrupt = errors.New("object corrupt")

// ErrTooLarge is returned when an object is larger than MaxObject or than the size its reference allows.
var ErrTooLarge = errors.New("object too large")

// ErrInvalid is returned when a scope or a reference is malformed. Nothing was read or written, and the same call will
// fail again.
var ErrInvalid = errors.New("invalid argument")

// Scope is whose objects are meant: one session. Namespace and Session are path-safe (a DNS label or UID); stores refuse
// others.
type Scope struct {
	Namespace string
	Session   string // the AgentSession's UID
	// Tree is which of the session's trees is meant. An object of one tree is not found in another.
	Tree Tree
}

// Tree is a part of what is stored for a session.
type Tree string

// The trees of a session. Only TreeObjects is written while agents run; the other two hold what was imported from
// earlier formats (docs/format/legacy.md): the lists of imported files, found by listing the tree, and the files.
const (
	TreeObjects   Tree = ""
	TreeManifests Tree = "legacy/manifests"
	TreeFiles     Tree = "legacy/files"
)

// In returns the same session's scope of another tree.
func (s Scope) In(tree Tree) Scope {
	s.Tree = tree
	return s
}

// maxLabel is the length of the longest DNS label in bytes.
const maxLabel = 63

// Validate returns ErrInvalid unless both names are lower-case DNS labels, which Kubernetes UIDs are as well, and the tree
// is one that sessions have. Such names can neither leave their folder nor differ only by case.
func (s Scope) Validate() error {
	if !isLabel(s.Namespace) {
		return fmt.Errorf("%w: scope's namespace %.80q is not a DNS label", ErrInvalid, s.Namespace)
	}
	if !isLabel(s.Session) {
		return fmt.Errorf("%w: scope's session %.80q is not a UID", ErrInvalid, s.Session)
	}
	if s.Tree != TreeObjects && s.Tree != TreeManifests && s.Tree != TreeFiles {
		return fmt.Errorf("%w: sessions have no tree %.80q", ErrInvalid, s.Tree)
	}
	return nil
}

func isLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Ref names one object.
type Ref struct {
	Digest    Digest `json:"digest"`
	Size      int64  `json:"size"`
	MediaType string `json:"mediaType,omitempty"`
}

// IsZero says whether r names nothing.
func (r Ref) IsZero() bool { return r.Digest.IsZero() }

// Validate returns ErrInvalid when r names nothing or has a negative size, and ErrTooLarge when its size is one that no
// object has.
func (r Ref) Validate() error {
	if r.IsZero() {
		return fmt.Errorf("%w: reference without a digest", ErrInvalid)
	}
	if r.Size < 0 {
		return fmt.Errorf("%w: reference to %s has size %d", ErrInvalid, r.Digest, r.Size)
	}
	if r.Size > MaxObject {
		return fmt.Errorf("%w: reference to %s has %d bytes, an object has at most %d", ErrTooLarge, r.Digest, r.Size, MaxObject)
	}
	return nil
}

// Store keeps immutable objects by digest.
//
// Put returns when data is durable; the same bytes again are a success (idempotent), and concurrent puts of the same
// bytes are safe. Put does not keep data. Get returns bytes that the caller owns, verified against ref.Digest and, when
// it is not zero, ref.Size; it never returns more than MaxObject. List calls fn for each stored digest of the scope in
// no particular order, with Size zero where the store does not know the decoded size, and stops with fn's first error.
// Purge removes every object of the scope's session, in all of its trees, and may be repeated. Errors wrap ErrNotFound, ErrCorrupt, ErrTooLarge or
// ErrInvalid where they apply; any other error means that the outcome is unknown and the same call may be retried.
// All methods stop soon after ctx ends.
type Store interface {
	Put(ctx context.Context, scope Scope, mediaType string, data []byte) (Ref, error)
	Get(ctx context.Context, scope Scope, ref Ref) ([]byte, error)
	List(ctx context.Context, scope Scope, fn func(Ref) error) error
	Purge(ctx context.Context, scope Scope) error
}

// Media types of the stored objects; docs/format/cas.md defines each.
const (
	MediaMessage     = "application/vnd.agentloop.message+json"
	MediaBlob        = "application/octet-stream"
	MediaSegment     = "application/vnd.agentloop.segment+json"
	MediaContext     = "application/vnd.agentloop.context+json"
	MediaModelAction = "application/vnd.agentloop.modelaction+json"
	MediaState       = "application/vnd.agentloop.state+json"
	MediaCheckpoint  = "application/vnd.agentloop.checkpoint+json"
	MediaToolSet     = "application/vnd.agentloop.toolset+json"
	MediaSections    = "application/vnd.agentloop.sections+json"
	MediaSnapshot    = "application/vnd.agentloop.snapshot+json"
	MediaRunConfig   = "application/vnd.agentloop.runconfig+json"
	MediaSkill       = "application/vnd.agentloop.skill+json"
	MediaParts       = "application/vnd.agentloop.parts+json"
	MediaImport      = "application/vnd.agentloop.import+json"
)
