package trajectory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/agentloop/agentloop/pkg/internal/jsonwalk"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/session"
)

// buffers are those in which documents are encoded before they are redacted into bytes of their own.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Encode returns the JSON of a document that may leave: encoded once and redacted.
func Encode(document any) ([]byte, error) {
	if d, ok := document.(Detail); ok {
		return d.encode(`{`)
	}
	w := writer{}
	w.value("", document)
	return w.out, w.err
}

func encode(document any) ([]byte, error) {
	raw, err := session.EncodeObject(document)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return raw, nil
}

// encode is the detail as it may leave, behind what its object begins with. The messages of an input were redacted when
// they were read: most inputs share most of theirs with the one before.
func (d *Detail) encode(lead string) ([]byte, error) {
	return d.appendTo(append(make([]byte, 0, d.size()), lead...))
}

// appendTo appends the members of the detail, and the end of its object.
func (d *Detail) appendTo(b []byte) ([]byte, error) {
	w := writer{out: b}
	w.name("entry")
	w.entry(&d.Entry)
	w.list("events", len(d.Events), func(i int) { w.event(&d.Events[i]) })
	if d.Input != nil {
		w.input(d.Input)
	}
	if d.Assembly != nil {
		w.name("assembly")
		w.assembly(d.Assembly)
	}
	if d.Output != nil || d.Text != nil || d.Tool != nil || d.Message != nil || d.Failure != nil {
		rest := *d
		rest.Events, rest.Input, rest.Assembly, rest.AgentState = nil, nil, nil, nil
		w.members(rest, "entry", "events", "notices")
	}
	if d.AgentState != nil {
		w.state(d.AgentState)
	}
	if d.Notices != nil && len(d.Notices) == 0 { // as nearly always
		w.raw(`,"notices":[]}`)
		return w.out, w.err
	}
	w.member("notices", d.Notices)
	w.raw(`}`)
	return w.out, w.err
}

// state writes a state. All entries of a turn have the same one, so that it is encoded when it is read.
func (w *writer) state(s *AgentState) {
	if s.safe == nil {
		w.member("agentState", s)
		return
	}
	w.name("agentState")
	w.out = append(w.out, s.safe...)
}

// size is about how long the encoded detail is.
func (d *Detail) size() int {
	size := 4 << 10
	for _, event := range d.Events {
		size += len(event.Event) + 100
	}
	if d.Input != nil {
		for _, m := range d.Input.Messages {
			size += len(m.Message) + 300
		}
	}
	return size
}

// writer writes a redacted document piece by piece, and remembers the first error.
type writer struct {
	out []byte
	err error
	// scratch is used again for one entry after the other.
	scratch []byte
}

func (w *writer) raw(s string) { w.out = append(w.out, s...) }

// name begins a member of an object.
func (w *writer) name(name string) {
	if w.out[len(w.out)-1] != '{' {
		w.out = append(w.out, ',')
	}
	w.out = append(message.AppendString(w.out, name), ':')
}

func (w *writer) member(name string, value any) {
	w.name(name)
	w.value(name, value)
}

// value writes a value that stands in a member of that name, or the document itself.
func (w *writer) value(name string, value any) {
	buf := buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds nothing else
	defer buffers.Put(buf)
	if raw := w.encoded(buf, value); raw != nil {
		w.redacted(name, raw)
	}
}

// encoded is the value's JSON, good as long as buf.
func (w *writer) encoded(buf *bytes.Buffer, value any) []byte {
	buf.Reset()
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		w.fail(fmt.Errorf("encode: %w", err))
		return nil
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

func (w *writer) redacted(name string, raw []byte) {
	m := modePlain
	if name != "" {
		m = modeOf(name, raw)
	}
	out, err := redactInto(w.out, raw, m)
	if err != nil {
		w.fail(err)
		return
	}
	w.out = out
}

func (w *writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// stored writes JSON that was stored as it may leave, on one line; nil is what must not.
func (w *writer) stored(safe []byte) {
	if safe == nil {
		w.fail(fmt.Errorf("%w: nested too deeply", ErrNotJSON))
		return
	}
	w.out = append(w.out, safe...)
}

func (w *writer) list(name string, length int, element func(i int)) {
	w.name(name)
	w.raw(`[`)
	for i := range length {
		if i > 0 {
			w.raw(`,`)
		}
		element(i)
	}
	w.raw(`]`)
}

// members writes the members of an object but for some that were written before.
func (w *writer) members(object any, but ...string) {
	buf := buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds nothing else
	defer buffers.Put(buf)
	raw := w.encoded(buf, object)
	if raw == nil {
		return
	}
	_, _ = jsonwalk.Object(raw, func(key, value []byte) error { // never an error of its own
		if name := string(key); !slices.Contains(but, name) {
			w.name(name)
			w.redacted(name, value)
		}
		return nil
	})
}

// event writes a run event as it is stored.
func (w *writer) event(e *RunEvent) {
	w.raw(`{"stream":`)
	w.out = message.AppendString(w.out, e.Stream)
	w.raw(`,"sequence":`)
	w.out = strconv.AppendInt(w.out, e.Sequence, 10)
	if e.CreatedAt != 0 {
		w.raw(`,"createdAt":`)
		w.out = strconv.AppendInt(w.out, int64(e.CreatedAt), 10)
	}
	w.raw(`,"event":`)
	if bytes.ContainsAny(e.Event, "\r\n") {
		w.stored(safeMember("event", e.Event))
	} else {
		w.redacted("event", e.Event)
	}
	w.raw(`}`)
}

func (w *writer) input(in *ModelInput) {
	w.name("input")
	w.raw(`{`)
	rest := *in
	rest.Messages, rest.Tools = nil, nil
	w.members(rest, "messages", "tools")
	w.list("messages", len(in.Messages), func(i int) { w.inputMessage(&in.Messages[i]) })
	if in.safeTools != nil {
		w.name("tools")
		w.out = append(w.out, in.safeTools...)
	} else {
		w.member("tools", in.Tools)
	}
	w.raw(`}`)
}

func (w *writer) inputMessage(m *InputMessage) {
	w.raw(`{"index":`)
	w.out = strconv.AppendInt(w.out, int64(m.Index), 10)
	if harmless(m.Role) {
		w.name("role")
		w.out = message.AppendString(w.out, m.Role)
	} else {
		w.member("role", m.Role)
	}
	if !m.Digest.IsZero() {
		w.raw(`,"digest":"`)
		w.raw(m.Digest.String())
		w.raw(`"`)
	}
	if len(m.Message) > 0 {
		w.name("message")
		w.stored(m.safe)
	}
	if m.Source != nil {
		w.name("source")
		w.source(m.Source)
	}
	if m.SkillExpansion != nil || m.Unavailable != "" {
		rest := *m
		rest.Message, rest.Source = nil, nil
		w.members(rest, "index", "role", "digest")
	}
	w.raw(`}`)
}

// source writes a row of the source map: an input has as many as messages. No member's name makes it a credential.
func (w *writer) source(s *projection.Source) {
	if harmlessSource(s) {
		w.out = s.AppendJSON(w.out)
		return
	}
	w.scratch = s.AppendJSON(w.scratch[:0])
	w.redacted("", w.scratch)
}

func harmlessSource(s *projection.Source) bool {
	for _, skill := range s.Skills {
		if !harmless(skill.ID) || !harmless(skill.Revision) {
			return false
		}
	}
	return harmless(string(s.Type)) && harmless(s.CheckpointID) && harmless(s.ToolCallID)
}

// assembly writes how an input was put together.
func (w *writer) assembly(a *Assembly) {
	w.raw(`{"historyMessageCount":`)
	w.out = strconv.AppendInt(w.out, int64(a.HistoryMessageCount), 10)
	if a.Sources == nil {
		w.raw(`,"sources":null`)
	} else {
		w.list("sources", len(a.Sources), func(i int) { w.source(&a.Sources[i]) })
	}
	rest := *a
	rest.Sources = nil
	w.members(rest, "historyMessageCount", "sources")
	w.raw(`}`)
}
