package modelserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"sync"
)

// model is a loaded script with what has been used of it.
type model struct {
	name   string
	script Script

	mu       sync.Mutex
	used     []int // how often each reply was given
	seq      int64
	withLead map[string]bool // calls made under fixed thinking with leading thinking; see rememberLead
}

// maxLeads bounds what a model remembers; beyond it the memory starts anew, which only makes the server more lenient.
const maxLeads = 1 << 16

func newModel(s Script) *model {
	return &model{name: s.Model, script: s, used: make([]int, len(s.Replies)), withLead: map[string]bool{}}
}

// pick uses up the first reply that is left and matches, and numbers the answer.
func (m *model) pick(c *call) (*Reply, int64, *apiError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := 0
	for i := range m.script.Replies {
		r := &m.script.Replies[i]
		total += m.used[i]
		if (m.used[i] > 0 && !r.Repeat) || !c.matches(r.Match) {
			continue
		}
		m.used[i]++
		m.seq++
		return r, m.seq, nil
	}
	return nil, 0, exhausted(m.name, total, c.turn)
}

// rememberLead notes of an answer's calls whether thinking led them, because a provider with fixed thinking wants that
// thinking back for as long as the turn goes on.
func (m *model) rememberLead(a *answer) {
	lead := len(a.parts) > 0 && a.parts[0].kind == partThinking
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.withLead) >= maxLeads {
		clear(m.withLead)
	}
	for _, p := range a.parts {
		if p.kind == partToolCall {
			m.withLead[leadKey(p.id, p.name)] = lead
		}
	}
}

func (m *model) hadLead(id, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.withLead[leadKey(id, name)]
}

func leadKey(id, name string) string { return id + "\x00" + name }

// counts returns how often each reply was given.
func (m *model) counts() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]int(nil), m.used...)
}

func (m *model) takesImages() bool { return m.script.Images == nil || *m.script.Images }

// answerID derives a stable id from the model and the number of the answer.
func answerID(model string, seq int64) string {
	sum := sha256.Sum256([]byte(model + "\x00" + strconv.FormatInt(seq, 10)))
	return hex.EncodeToString(sum[:12])
}

// callID is the id of a tool call whose script leaves it open.
func callID(answer string, index int) string {
	return "call_" + answer[:20] + strconv.Itoa(index)
}

func compactJSON(raw json.RawMessage) string {
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		return string(raw)
	}
	return buf.String()
}
