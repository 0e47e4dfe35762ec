package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// maxEventBytes bounds one line of an event stream.
const maxEventBytes = 32 << 20

// Event is one server-sent event.
type Event struct {
	// Name is the event's "event" field; empty when it has none.
	Name string
	// Data is its "data" lines joined by line feeds. It is valid until the next call of Next.
	Data []byte
}

// Events reads a stream of server-sent events. Comments, ids, retry hints and events without data are passed over.
// Names and data are kept as they are, valid UTF-8 or not.
type Events struct {
	lines *bufio.Scanner
	data  []byte
	name  string
	begun bool
}

// NewEvents returns a reader of r's events.
func NewEvents(r io.Reader) *Events {
	e := &Events{lines: bufio.NewScanner(r)}
	e.lines.Buffer(nil, maxEventBytes)
	split := lineSplitter{}
	e.lines.Split(split.split)
	return e
}

// Next returns the next event, io.EOF after the last one, or the reader's error. An event that the stream ends in the
// middle of is dropped, unless only its closing blank line is missing.
func (e *Events) Next() (Event, error) {
	e.data, e.name = e.data[:0], ""
	has := false
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if !e.begun {
			e.begun = true
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) == 0 {
			if len(e.data) > 0 {
				return Event{Name: e.name, Data: e.data}, nil
			}
			e.name, has = "", false
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name = string(value)
		case "data":
			if has {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
			has = true
		}
		if len(e.data) > maxEventBytes {
			return Event{}, ErrResponseTooLarge
		}
	}
	err := e.lines.Err()
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return Event{}, ErrResponseTooLarge
	case err != nil:
		return Event{}, err
	case has && (json.Valid(e.data) || string(bytes.TrimSpace(e.data)) == "[DONE]"):
		return Event{Name: e.name, Data: e.data}, nil
	}
	return Event{}, io.EOF
}

// lineSplitter ends lines at LF, CR and CRLF. A CR ends its line at once, without waiting for the byte after it.
type lineSplitter struct{ skipLF bool }

func (s *lineSplitter) split(data []byte, atEOF bool) (int, []byte, error) {
	start := 0
	if s.skipLF && len(data) > 0 {
		s.skipLF = false
		if data[0] == '\n' {
			start = 1
		}
	}
	rest := data[start:]
	if i := bytes.IndexAny(rest, "\r\n"); i >= 0 {
		s.skipLF = rest[i] == '\r'
		return start + i + 1, rest[:i], nil
	}
	if atEOF && len(rest) > 0 {
		return len(data), rest, nil
	}
	if start > 0 {
		return start, nil, nil
	}
	return 0, nil, nil
}
