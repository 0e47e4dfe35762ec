package runevent

import (
	"context"
	"errors"

	"github.com/agentloop/agentloop/pkg/cas"
)

// ErrFenced is returned when another appender has written to the stream: stop, change nothing more.
var ErrFenced = errors.New("fenced out: another appender has written to this stream")

// ErrUnavailable is returned when the log could not be reached in time; the outcome of an append is then unknown and
// the same append may be tried again.
var ErrUnavailable = errors.New("run-event log unavailable")

// ErrNewerFormat is returned when an entry has a higher version or an unknown type; nothing is folded over it.
var ErrNewerFormat = errors.New("run event of a newer format")

// Class says which family a stream belongs to.
type Class string

// The stream families: agent event streams and tool output.
const (
	ClassRun Class = "run"
	ClassOut Class = "out"
)

// MainAgent is the agent key of a session's main agent.
const MainAgent = "main"

// Stream names one stream. Namespace and Session (the AgentSession's UID) are never names with dots; Key is an agent
// key (main, or <subagent>-<hash>) or a tool-output key, of [a-zA-Z0-9_-].
type Stream struct {
	Class     Class
	Namespace string
	Session   string
	Key       string
}

// Head is the end of a stream. The zero Head is the end of an empty one.
type Head struct {
	// Sequence is the number of the last entry ("#").
	Sequence int64
	// Position is the log's own position of that entry, used to fence appends; 0 for an empty stream.
	Position uint64
	// Digest is the digest of the last entry's exact bytes.
	Digest cas.Digest
}

// Record is one stored entry with its exact bytes and its place.
type Record struct {
	Stream Stream
	Head   Head
	Raw    []byte
}

// Stride is a distance of entries. Who comes back to the middle of a stream does best to begin behind a multiple of it: a log
// that has read the stream may remember where those entries are.
const Stride = 240

// Log stores run-event streams.
//
// Append stores raw as the entry after expect and returns the new head when it is durable. expect must be the stream's
// end: another appender's entry gives ErrFenced and nothing is stored. Appending the same bytes after the same expect
// again is a success (so an unknown outcome is resolved by repeating the call); an implementation resolves its own
// transport failures that way until ctx ends and then returns ErrUnavailable. One append per stream is in flight.
//
// Read calls fn with every record whose sequence is above after, in order, up to the end seen at the call; fn's error
// ends it and is returned as it is. A stream that ends before after gives ErrTruncated. Last returns the stream's last
// record, or a zero Record when it is empty. Streams lists the last record of each stream of a session, sorted by the
// streams' names. Purge removes every stream of a session and may be repeated.
//
// Nothing keeps raw or the bytes of a delivered Record: both belong to the caller. Calls other than Append are tried
// again in the same way until ctx ends, so give them a deadline. Bad names and entries are refused with ErrInvalid,
// ErrDamaged, ErrTooLarge, ErrGap or ErrLink before anything is sent.
type Log interface {
	Append(ctx context.Context, stream Stream, expect Head, raw []byte) (Head, error)
	Read(ctx context.Context, stream Stream, after int64, fn func(Record) error) error
	Last(ctx context.Context, stream Stream) (Record, error)
	Streams(ctx context.Context, namespace, session string) ([]Record, error)
	Purge(ctx context.Context, namespace, session string) error
}

// Sweep says which records of a session are read together: those of the streams of one class that stand behind After and
// not behind Until in the log.
type Sweep struct {
	Class              Class
	Namespace, Session string
	After, Until       uint64
}
