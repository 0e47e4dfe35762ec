package modelserver

// event is one server-sent event.
type event struct {
	frame []byte // as it goes on the wire, with its blank line
	// chunk marks a delta of content: what pacing and cuts count. last marks the first event of the stream's ending.
	chunk, last bool
}

// stream is a streamed answer.
type stream struct {
	events []event
	// fail returns what ends the stream in place of its ending when the answer fails on the way.
	fail func(*apiError) []event
}

// before returns the events up to the place after n deltas: those before delta n+1, or before the ending.
func (s stream) before(n int) []event {
	for i, ev := range s.events {
		if ev.last || ev.chunk && n == 0 {
			return s.events[:i:i]
		}
		if ev.chunk {
			n--
		}
	}
	return s.events
}

// frame builds the wire form of an event; an empty name leaves the event line out.
func frame(name string, data []byte) []byte {
	out := make([]byte, 0, len(name)+len(data)+len("event: \ndata: \n\n"))
	if name != "" {
		out = append(out, "event: "...)
		out = append(out, name...)
		out = append(out, '\n')
	}
	out = append(out, "data: "...)
	out = append(out, data...)
	return append(out, '\n', '\n')
}
