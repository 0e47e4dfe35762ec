package mcp

import "bytes"

// maxEventName bounds what is kept of an event's name, in bytes: no name that means anything here is longer.
const maxEventName = 64

// event is one server-sent event.
type event struct {
	name string
	data []byte
}

// eventScanner picks the data of server-sent events out of a stream that arrives in pieces. It holds one event at a
// time; the stream's own bound is what limits it.
type eventScanner struct {
	line []byte // the unfinished line
	name string // of the unfinished event
	data []byte // the data lines of the unfinished event, joined by line breaks
	some bool   // the event has a data line
}

// held is how many bytes of an unfinished event it holds.
func (s *eventScanner) held() int { return len(s.line) + len(s.data) }

// feed takes the next piece and calls each with every event that it finished, in order. The event is each's own.
func (s *eventScanner) feed(piece []byte, each func(event)) {
	for {
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			s.line = append(s.line, piece...)
			return
		}
		line := piece[:end]
		if len(s.line) > 0 {
			line = append(s.line, line...)
		}
		if done := s.take(bytes.TrimSuffix(line, []byte("\r"))); done.data != nil {
			each(done)
		}
		s.line = s.line[:0]
		piece = piece[end+1:]
	}
}

// take handles one whole line; an empty one ends the event.
func (s *eventScanner) take(line []byte) event {
	if len(line) == 0 {
		done := event{name: s.name, data: s.data}
		s.name, s.data, s.some = "", nil, false
		return done
	}
	if name, ok := bytes.CutPrefix(line, []byte("event:")); ok {
		s.name = string(bytes.TrimSpace(name[:min(len(name), maxEventName)]))
		return event{}
	}
	rest, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return event{}
	}
	if s.some {
		s.data = append(s.data, '\n')
	}
	s.some = true
	s.data = append(s.data, bytes.TrimPrefix(rest, []byte(" "))...)
	return event{}
}
