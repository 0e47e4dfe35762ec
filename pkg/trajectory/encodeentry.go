package trajectory

import (
	"strconv"
	"strings"

	"github.com/agentloop/agentloop/pkg/message"
)

// EncodeListing appends to b the JSON of a document that may leave: the members of head and the listed entries.
func EncodeListing(b []byte, head any, entries, untimed []*Entry) ([]byte, error) {
	w := writer{out: append(b, '{')}
	w.members(head)
	for _, list := range []struct {
		name    string
		entries []*Entry
	}{{"entries", entries}, {"untimed", untimed}, {"historicalEntries", untimed}} {
		w.list(list.name, len(list.entries), func(i int) { w.entry(list.entries[i]) })
	}
	w.raw(`}`)
	return w.out, w.err
}

// entry writes an entry: a listing has thousands of them. No member's name makes it a credential, so that only texts by
// whose form it could be one are looked into.
func (w *writer) entry(e *Entry) {
	if e.harmless() {
		w.out = e.appendJSON(w.out)
		return
	}
	w.scratch = e.appendJSON(w.scratch[:0])
	w.redacted("", w.scratch)
}

// harmless says that no text of the entry can have the form of a credential. Titles are for people and never looked into.
func (e *Entry) harmless() bool {
	if r := e.Run; r != nil && (!harmless(r.UID) || !harmless(r.Name)) {
		return false
	}
	if e.Usage != nil && !harmless(e.Usage.Cost) {
		return false
	}
	for _, text := range [...]string{
		e.ID, e.Agent, string(e.Type), e.Event, e.RequestExecutionID, e.ResponseID, e.Purpose, string(e.Status), e.ToolCallID, e.Server,
		e.StopReason, e.Model, e.InputID, e.AnswerID, e.ImportedFrom, e.DuplicateOf,
	} {
		if !harmless(text) {
			return false
		}
	}
	return true
}

// harmless says that a text is none that suspicious takes a second look at, whatever it looks like in JSON.
func harmless(s string) bool {
	for i := range len(s) {
		if !harmlessBytes[s[i]] {
			return false
		}
	}
	return !tokenStart(s)
}

// harmlessBytes are those of ids and names: what is left of ASCII without the signs that suspicious looks for, and without
// what JSON escapes.
var harmlessBytes = func() (harmless [256]bool) {
	for c := '!'; c < 0x7f; c++ {
		harmless[c] = !strings.ContainsRune(suspiciousSigns+`"`, c)
	}
	return harmless
}()

// appendJSON appends what encoding/json makes of the entry.
func (e *Entry) appendJSON(b []byte) []byte {
	b = message.AppendString(append(b, `{"id":`...), e.ID)
	b = message.AppendString(append(b, `,"agent":`...), e.Agent)
	b = message.AppendString(append(b, `,"type":`...), string(e.Type))
	b = message.AppendString(append(b, `,"event":`...), e.Event)
	b = strconv.AppendBool(append(b, `,"hidden":`...), e.Hidden)
	b = strconv.AppendInt(append(b, `,"sequence":`...), e.Sequence, 10)
	b = appendNumber(b, `,"lastSequence":`, e.LastSequence)
	if e.Run != nil {
		b = message.AppendString(append(b, `,"run":{"uid":`...), e.Run.UID)
		b = append(appendText(b, `,"name":`, e.Run.Name), '}')
	}
	b = appendNumber(b, `,"turn":`, int64(e.Turn))
	b = appendText(b, `,"requestExecutionId":`, e.RequestExecutionID)
	b = appendText(b, `,"responseId":`, e.ResponseID)
	b = appendText(b, `,"purpose":`, e.Purpose)
	b = appendNumber(b, `,"capturedAt":`, int64(e.CapturedAt))
	b = appendNumber(b, `,"startedAt":`, int64(e.StartedAt))
	b = appendNumber(b, `,"endedAt":`, int64(e.EndedAt))
	b = appendTrue(b, `,"clockAdjusted":`, e.ClockAdjusted)
	b = message.AppendString(append(b, `,"title":`...), e.Title)
	b = appendText(b, `,"status":`, string(e.Status))
	b = appendText(b, `,"toolCallId":`, e.ToolCallID)
	b = appendText(b, `,"server":`, e.Server)
	b = appendNumber(b, `,"attempts":`, int64(e.Attempts))
	b = appendText(b, `,"stopReason":`, e.StopReason)
	b = appendUsage(b, e.Usage)
	b = appendText(b, `,"model":`, e.Model)
	b = appendText(b, `,"inputId":`, e.InputID)
	b = appendText(b, `,"answerId":`, e.AnswerID)
	b = appendNumber(b, `,"bytes":`, e.Bytes)
	b = appendText(b, `,"importedFrom":`, e.ImportedFrom)
	return append(appendText(b, `,"duplicateOf":`, e.DuplicateOf), '}')
}

func appendUsage(b []byte, u *message.Usage) []byte {
	if u == nil {
		return b
	}
	b = append(b, `,"usage":{`...)
	begun := len(b)
	for _, count := range []struct {
		name string
		n    *int64
	}{{"input", u.Input}, {"output", u.Output}, {"cacheRead", u.CacheRead}, {"cacheWrite", u.CacheWrite}, {"reasoning", u.Reasoning}} {
		if count.n != nil {
			b = append(append(append(b, `,"`...), count.name...), `":`...)
			b = strconv.AppendInt(b, *count.n, 10)
		}
	}
	b = appendText(b, `,"cost":`, u.Cost)
	if len(b) > begun { // without the first comma
		b = append(b[:begun], b[begun+1:]...)
	}
	return append(b, '}')
}

func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return message.AppendString(append(b, name...), text)
}

func appendNumber(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), n, 10)
}

func appendTrue(b []byte, name string, yes bool) []byte {
	if !yes {
		return b
	}
	return append(append(b, name...), "true"...)
}
