package cas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// SegmentLength is the largest number of message references in one segment object. Segments are aligned to history
// indexes, so that successive inputs and states share all but their last one.
const SegmentLength = 32

// MessageRef names one stored message. Without Index the object is the message itself; with Index it is the Index-th
// message inside a container object (the results of a state's step, or the message of a model action at index 0).
type MessageRef struct {
	Digest Digest `json:"d"`
	Index  *int   `json:"i,omitempty"`
}

// Segment is a stored list of message references.
type Segment struct {
	Messages []MessageRef `json:"messages"`
}

// MessageList is how a manifest holds a list of messages: closed segments first, then the tail. A segment holds
// SegmentLength references; only the first one is shorter, when the list begins between two multiples of SegmentLength.
type MessageList struct {
	// Segments name segment objects by digest and size; their media type is always MediaSegment and is left out.
	Segments []Ref        `json:"segments,omitempty"`
	Tail     []MessageRef `json:"tail,omitempty"`
	// Count is the number of messages in all.
	Count int `json:"count"`
}

// Equal says whether two references name the same message.
func (m MessageRef) Equal(o MessageRef) bool {
	if m.Digest != o.Digest || (m.Index == nil) != (o.Index == nil) {
		return false
	}
	return m.Index == nil || *m.Index == *o.Index
}

func (m MessageRef) validate() error {
	if m.Digest.IsZero() {
		return fmt.Errorf("%w: message reference without a digest", ErrInvalid)
	}
	if m.Index != nil && *m.Index < 0 {
		return fmt.Errorf("%w: message reference with index %d", ErrInvalid, *m.Index)
	}
	return nil
}

// messageRefSize is about the length of one encoded MessageRef with a one-digit index and its comma.
const messageRefSize = 88

// MarshalJSON writes the compact form by hand: manifests are encoded for every model request, and reflection over
// hundreds of references would be most of its cost.
func (m MessageRef) MarshalJSON() ([]byte, error) {
	return m.appendJSON(make([]byte, 0, messageRefSize)), nil
}

func (m MessageRef) appendJSON(b []byte) []byte {
	b = append(b, `{"d":"`...)
	b = m.Digest.append(b)
	b = append(b, '"')
	if m.Index != nil {
		b = append(b, `,"i":`...)
		b = strconv.AppendInt(b, int64(*m.Index), 10)
	}
	return append(b, '}')
}

func appendMessageRefs(b []byte, refs []MessageRef) []byte {
	b = append(b, '[')
	for i, ref := range refs {
		if i > 0 {
			b = append(b, ',')
		}
		b = ref.appendJSON(b)
	}
	return append(b, ']')
}

// MarshalJSON writes the exact bytes under which a segment is stored and hashed.
func (s Segment) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, len(s.Messages)*messageRefSize+16), `{"messages":`...)
	return append(appendMessageRefs(b, s.Messages), '}'), nil
}

// MarshalJSON writes the compact form without reflection.
func (l MessageList) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, (len(l.Segments)+len(l.Tail))*messageRefSize+64)
	b = append(b, '{')
	if len(l.Segments) > 0 {
		b = append(b, `"segments":[`...)
		for i, ref := range l.Segments {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendRef(b, ref); err != nil {
				return nil, err
			}
		}
		b = append(b, `],`...)
	}
	if len(l.Tail) > 0 {
		b = append(b, `"tail":`...)
		b = append(appendMessageRefs(b, l.Tail), ',')
	}
	b = append(b, `"count":`...)
	b = strconv.AppendInt(b, int64(l.Count), 10)
	return append(b, '}'), nil
}

func appendRef(b []byte, ref Ref) ([]byte, error) {
	b = append(b, `{"digest":"`...)
	b = ref.Digest.append(b)
	b = append(b, `","size":`...)
	b = strconv.AppendInt(b, ref.Size, 10)
	if ref.MediaType != "" {
		quoted, err := json.Marshal(ref.MediaType)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"mediaType":`...), quoted...)
	}
	return append(b, '}'), nil
}

// decodeStrict parses a stored object of this package. Unknown keys and bytes after the value are ErrCorrupt: an object
// that is not understood whole is not understood.
func decodeStrict(raw []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: bytes after the value", ErrCorrupt)
	}
	return nil
}

// decodeSegment parses one segment object.
func decodeSegment(raw []byte) (Segment, error) {
	var s Segment
	if err := decodeStrict(raw, &s); err != nil {
		return Segment{}, fmt.Errorf("segment: %w", err)
	}
	if n := len(s.Messages); n == 0 || n > SegmentLength {
		return Segment{}, fmt.Errorf("segment: %w: %d messages, want 1 to %d", ErrCorrupt, n, SegmentLength)
	}
	for _, ref := range s.Messages {
		if err := ref.validate(); err != nil {
			return Segment{}, fmt.Errorf("segment: %w: %w", ErrCorrupt, err)
		}
	}
	return s, nil
}
