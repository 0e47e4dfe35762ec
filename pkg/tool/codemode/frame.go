package codemode

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Frames between the two processes are a length in four bytes, most significant first, and as many bytes of JSON.
const (
	// maxFromChild bounds a frame that model-written code has influence on, in bytes.
	maxFromChild = 1 << 20
	// maxToChild bounds a frame that goes to the interpreter, in bytes.
	maxToChild = 4 << 20
)

var (
	// errFrame is returned when what was read is no frame of the protocol.
	errFrame = errors.New("malformed frame")
	// errTooLong is returned when a frame is longer than its bound.
	errTooLong = errors.New("frame too long")
)

// frame is one message. Exactly one field is set.
type frame struct {
	Run   *runFrame   `json:"run,omitempty"`
	Reply *replyFrame `json:"reply,omitempty"`
	Call  *callFrame  `json:"call,omitempty"`
	Done  *doneFrame  `json:"done,omitempty"`
}

// runFrame tells the interpreter what to run.
type runFrame struct {
	Code   string      `json:"code"`
	Names  []toolNames `json:"names"`
	Limits Limits      `json:"limits"`
}

// toolNames is one function that code may call. Refusal, when set, is why it may not.
type toolNames struct {
	Server  string `json:"server"`
	Tool    string `json:"tool"`
	Refusal string `json:"refusal,omitempty"`
}

// The kinds of a call.
const (
	kindTool     = "tool"
	kindSearch   = "search"
	kindDescribe = "describe"
)

// callFrame is a call that code makes. Arguments are JSON.
type callFrame struct {
	ID        int             `json:"id"`
	Kind      string          `json:"kind"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// replyFrame is what a call gave: a value or an error. Without a value it is undefined.
type replyFrame struct {
	ID    int             `json:"id"`
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
}

// doneFrame is how the code ended. Value is the JSON of its result, empty for undefined; Error says what was thrown.
// Bytes are the sizes before anything was cut.
type doneFrame struct {
	Value      string `json:"value,omitempty"`
	ValueBytes int    `json:"valueBytes,omitempty"`
	Error      string `json:"error,omitempty"`
	Logs       string `json:"logs,omitempty"`
	LogBytes   int    `json:"logBytes,omitempty"`
}

// fields is how many fields of a frame are set.
func (f frame) fields() int {
	n := 0
	for _, set := range []bool{f.Run != nil, f.Reply != nil, f.Call != nil, f.Done != nil} {
		if set {
			n++
		}
	}
	return n
}

// readFrame reads one frame of at most limit bytes. The end of the stream before a frame is io.EOF.
func readFrame(r io.Reader, limit int) (frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return frame{}, fmt.Errorf("%w: cut off", errFrame)
		}
		return frame{}, err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size > int64(limit) {
		return frame{}, fmt.Errorf("%w: %d bytes, at most %d", errTooLong, size, limit)
	}
	// Read as it comes: a length alone must not take memory.
	raw, err := io.ReadAll(io.LimitReader(r, size))
	if err != nil {
		return frame{}, err
	}
	if int64(len(raw)) < size {
		return frame{}, fmt.Errorf("%w: cut off", errFrame)
	}
	var f frame
	if err := json.Unmarshal(raw, &f); err != nil || f.fields() != 1 {
		return frame{}, fmt.Errorf("%w: no message", errFrame)
	}
	return f, nil
}

// writeFrame writes one frame of at most limit bytes; a longer one writes nothing.
func writeFrame(w io.Writer, f frame, limit int) error {
	raw, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	if len(raw) > limit {
		return fmt.Errorf("%w: %d bytes, at most %d", errTooLong, len(raw), limit)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(raw)), uint32(len(raw))), raw...))
	return err
}
