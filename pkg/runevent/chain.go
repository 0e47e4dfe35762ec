package runevent

import (
	"errors"
	"fmt"

	"github.com/agentloop/agentloop/pkg/cas"
)

// ErrGap is returned when entries are missing between two records of a stream.
var ErrGap = errors.New("gap in the run-event stream")

// ErrLink is returned when an entry does not name the entry before it: one of the two was replaced.
var ErrLink = errors.New("broken link in the run-event stream")

// ErrTruncated is returned when a stream is shorter than it once was: entries that were durable are gone. It is also
// an ErrFenced, because an appender that meets it must stop.
var ErrTruncated = fmt.Errorf("%w: the stream is shorter than it was", ErrFenced)

// HeadOf returns the head that an entry's exact bytes make, at the log's own position of it.
func HeadOf(sequence int64, position uint64, raw []byte) Head {
	return Head{Sequence: sequence, Position: position, Digest: cas.Of(raw)}
}

// Verify checks that rec directly follows prev: its bytes have the digest of its head (ErrDamaged), its sequence is
// the next (ErrGap) and it names prev (ErrLink). Entries of a newer format are verified like any other. For a stream
// whose beginning was archived, prev is the head of the archive's last entry.
func Verify(prev Head, rec Record) error {
	_, err := DecodeNext(prev, rec)
	if errors.Is(err, ErrNewerFormat) {
		return nil
	}
	return err
}

// DecodeNext decodes rec and checks what Verify does. ErrNewerFormat, with the entry as Decode returns it, says that an
// entry is in its place that must not be folded.
func DecodeNext(prev Head, rec Record) (Entry, error) {
	if got := cas.Of(rec.Raw); got != rec.Head.Digest {
		return Entry{}, fmt.Errorf("%w: entry %d has digest %s, expected %s", ErrDamaged, rec.Head.Sequence, got, rec.Head.Digest)
	}
	e, err := Decode(rec.Raw)
	if err != nil && !errors.Is(err, ErrNewerFormat) {
		return Entry{}, err
	}
	if e.Sequence != rec.Head.Sequence {
		return Entry{}, fmt.Errorf("%w: entry %d stands in the place of entry %d", ErrDamaged, e.Sequence, rec.Head.Sequence)
	}
	if out := follows(prev, e); out != nil {
		return Entry{}, out
	}
	return e, err
}

// CheckAppend decodes raw and checks that it may stand directly after expect. A log calls it before it stores raw.
func CheckAppend(stream Stream, expect Head, raw []byte) (Entry, error) {
	if err := stream.Validate(); err != nil {
		return Entry{}, err
	}
	if len(raw) > MaxEntry {
		return Entry{}, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(raw), MaxEntry)
	}
	e, err := Decode(raw)
	if err != nil {
		return Entry{}, err
	}
	return e, follows(expect, e)
}

func follows(prev Head, e Entry) error {
	if e.Sequence != prev.Sequence+1 {
		return fmt.Errorf("%w: entry %d after entry %d", ErrGap, e.Sequence, prev.Sequence)
	}
	if e.Event.Evidence.Prev != prev.Digest {
		return fmt.Errorf("%w: entry %d names %s, the entry before it is %s", ErrLink, e.Sequence, e.Event.Evidence.Prev, prev.Digest)
	}
	return nil
}

// maxPart is the longest part of a stream's name.
const maxPart = 253

// isPart says whether s can be a part of a stream's name: it has no separator, wildcard or white space of any log.
func isPart(s string) bool {
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= maxPart
}

// Validate says whether s names a stream: ErrInvalid if not.
func (s Stream) Validate() error {
	if s.Class != ClassRun && s.Class != ClassOut {
		return fmt.Errorf("%w: stream class %q", ErrInvalid, s.Class)
	}
	if err := ValidateSession(s.Namespace, s.Session); err != nil {
		return err
	}
	if !isPart(s.Key) {
		return fmt.Errorf("%w: stream key %.80q", ErrInvalid, s.Key)
	}
	return nil
}

// ValidateSession says whether the two can be the namespace and session of a stream: ErrInvalid if not.
func ValidateSession(namespace, session string) error {
	if !isPart(namespace) || !isPart(session) {
		return fmt.Errorf("%w: namespace %.80q, session %.80q", ErrInvalid, namespace, session)
	}
	return nil
}

// String returns the stream's name for messages and logs.
func (s Stream) String() string {
	return string(s.Class) + "/" + s.Namespace + "/" + s.Session + "/" + s.Key
}
