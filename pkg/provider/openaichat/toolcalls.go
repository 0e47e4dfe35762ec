package openaichat

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/agentloop/agentloop/pkg/provider/wire"
)

// fragment is a part of a tool call as a chunk gives it. indexed says that the index was given.
type fragment struct {
	index               int64
	indexed             bool
	id, name, arguments string
}

// toolCalls are the calls of one response in the order in which they began.
type toolCalls struct{ open []*openCall }

// openCall is a call that is being streamed. waiting holds arguments that came before the name.
type openCall struct {
	key      wire.Key
	index    int64
	id, name string
	waiting  string
}

// toolCall adds a fragment to the call that it belongs to.
//
// By the protocol a call is known by its index, and only its first fragment has an id and a name. Servers differ: some
// number every call 0, some leave the index out, some repeat the id in each fragment or make up a new one, some give no
// ids. So a fragment begins a new call when its index is new, when it has another id and a name, or when it has a name
// and the call at its index has a name and complete arguments.
func (d *decoder) toolCall(f fragment) {
	call := d.calls.find(f)
	if call == nil || d.begins(f, call) {
		call = &openCall{key: d.place(), index: f.index, id: f.id}
		if call.id == "" {
			call.id = d.makeID(len(d.calls.open))
		}
		d.calls.open = append(d.calls.open, call)
	}
	switch {
	case call.name != "":
		d.assembly.Arguments(call.key, f.arguments)
	case f.name == "":
		call.waiting += f.arguments
	default:
		call.name = f.name
		d.assembly.Call(call.key, call.id, call.name)
		d.assembly.Arguments(call.key, call.waiting+f.arguments)
		call.waiting = ""
	}
}

// find returns the latest call that a fragment could belong to.
func (t *toolCalls) find(f fragment) *openCall {
	for i := len(t.open) - 1; i >= 0; i-- {
		call := t.open[i]
		switch {
		case f.indexed && call.index == f.index,
			!f.indexed && f.id != "" && call.id == f.id,
			!f.indexed && f.id == "":
			return call
		}
	}
	return nil
}

func (d *decoder) begins(f fragment, call *openCall) bool {
	if f.name == "" || call.name == "" {
		return false
	}
	if f.id != "" {
		return f.id != call.id
	}
	return d.assembly.ArgumentsComplete(call.key)
}

// unnamed says whether a call never got a name: the message is then not complete.
func (t *toolCalls) unnamed() bool {
	for _, call := range t.open {
		if call.name == "" {
			return true
		}
	}
	return false
}

// makeID returns an id for a call that has none: the same for the same response and place, and most likely no other
// response's.
func (d *decoder) makeID(n int) string {
	digest := sha256.Sum256([]byte(d.assembly.ResponseID()))
	return fmt.Sprintf("call_%s_%d", hex.EncodeToString(digest[:6]), n)
}
