package runevent

import (
	"hash/maphash"
	"strings"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/internal/jsonwalk"
)

// Decoder decodes entries one after the other for who looks at contents and does not keep them. The zero Decoder is
// ready. Use it from one goroutine at a time.
type Decoder struct {
	reader reader
	shared shared
	entry  Entry
}

// Decode is the package's Decode but for what the entry holds: Text, Body, Arguments and Audit are good until the next
// call, or until raw changes. Other strings, and what references point to, are shared with other entries in which the
// same was written: they must not be changed, and may be kept.
func (d *Decoder) Decode(raw []byte) (Entry, error) {
	d.reader.shared = &d.shared
	d.entry = Entry{}
	return decode(&d.reader, raw, &d.entry)
}

const (
	// sharedTexts and sharedRefs are how many texts and references are remembered: an agent's run has a handful at a time.
	sharedTexts, sharedRefs = 256, 64
	// sharedLength is the longest text that is remembered, in bytes.
	sharedLength = 128
)

// shared remembers what was decoded last. The records of a run name the same run, request and objects over and over.
// All methods of nil share nothing.
type shared struct {
	texts   [sharedTexts]string
	refs    [sharedRefs]*cas.Ref
	next    *cas.Ref
	scratch []byte
}

var sharedSeed = maphash.MakeSeed()

// text returns a copy of a text that is only viewed.
func (s *shared) text(view string) string {
	if s == nil || len(view) > sharedLength {
		return strings.Clone(view)
	}
	known := &s.texts[maphash.String(sharedSeed, view)%sharedTexts]
	if *known != view {
		*known = strings.Clone(view)
	}
	return *known
}

// content decodes a string into memory that is used again.
func (s *shared) content(quoted []byte) string {
	s.scratch = jsonwalk.AppendString(s.scratch[:0], quoted)
	return jsonwalk.View(s.scratch)
}

// ref returns a reference to read into.
func (s *shared) ref() *cas.Ref {
	if s == nil || s.next == nil {
		return new(cas.Ref)
	}
	return s.next
}

// same returns one, or an equal reference that was read before; one is then read into again.
func (s *shared) same(one *cas.Ref) *cas.Ref {
	if s == nil {
		return one
	}
	known := &s.refs[maphash.String(sharedSeed, one.Digest.Hex())%sharedRefs]
	if *known != nil && **known == *one {
		s.next = one
		return *known
	}
	s.next, *known = nil, one
	return one
}
