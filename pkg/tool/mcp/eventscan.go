package mcp

import "bytes"

// eventScanner picks the data of server-sent events out of a stream that arrives in pieces. It holds one event at a
// time; the stream's own bound is what limits it.
type eventScanner struct {
	line []byte // the unfinished line
	data []byte // the data lines of the unfinished event, joined by line breaks
	some bool   // the event has a data line
}

// feed takes the next piece and calls each with the data of every event that it finished, in order. The data is each's own.
func (s *eventScanner) feed(piece []byte, each func(data []byte)) {
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
		if done := s.take(bytes.TrimSuffix(line, []byte("\r"))); done != nil {
			each(done)
		}
		s.line = s.line[:0]
		piece = piece[end+1:]
	}
}

// take handles one whole line; an empty one ends the event.
func (s *eventScanner) take(line []byte) []byte {
	if len(line) == 0 {
		data := s.data
		ended := s.some
		s.data, s.some = nil, false
		if !ended {
			return nil
		}
		return data
	}
	rest, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return nil
	}
	if s.some {
		s.data = append(s.data, '\n')
	}
	s.some = true
	s.data = append(s.data, bytes.TrimPrefix(rest, []byte(" "))...)
	return nil
}
