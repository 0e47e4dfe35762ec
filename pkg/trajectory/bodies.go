package trajectory

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
)

// body is one stored message, or what is wrong with it. It is kept for further requests: the inputs of a session have
// most of their messages in common.
type body struct {
	raw    json.RawMessage
	digest cas.Digest
	// safe is raw as it may leave; nil when it must not.
	safe   json.RawMessage
	role   message.Role
	callID string
	notice *Notice
}

// bodyKey names a message of one session.
type bodyKey struct {
	scope  cas.Scope
	digest cas.Digest
	index  int // -1 for an object that is the message itself
}

// bodyBytes bounds the messages that a reader keeps, bodyOverhead is what one costs besides its bytes.
const (
	bodyBytes    = 8 << 20
	bodyOverhead = 512
)

func bodyKeyOf(scope cas.Scope, ref cas.MessageRef) bodyKey {
	key := bodyKey{scope, ref.Digest, -1}
	if ref.Index != nil {
		key.index = *ref.Index
	}
	return key
}

func (b body) roleName() string {
	switch b.role {
	case message.RoleUser, message.RoleAssistant, message.RoleToolResult:
		return string(b.role)
	}
	return "unknown"
}

func (b body) problem() string {
	if b.notice == nil {
		return ""
	}
	return b.notice.Message
}

// resolve reads messages. One that is missing or damaged does not keep the others away.
func (r *Reader) resolve(ctx context.Context, scope cas.Scope, refs []cas.MessageRef) ([]body, error) {
	out := make([]body, len(refs))
	var missing []cas.MessageRef
	var places []int
	for i, ref := range refs {
		known, ok := r.bodies.Get(bodyKeyOf(scope, ref))
		if !ok {
			missing, places = append(missing, ref), append(places, i)
			continue
		}
		out[i] = known
	}
	read := make([]body, len(missing))
	if len(missing) > 0 {
		if err := r.resolveInto(ctx, scope, missing, read); err != nil {
			return nil, err
		}
	}
	for i, one := range read {
		out[places[i]] = one
		if one.notice != nil {
			continue
		}
		size := len(one.raw) + bodyOverhead
		if len(one.safe) > 0 && &one.safe[0] != &one.raw[0] {
			size += len(one.safe)
		}
		r.bodies.Add(bodyKeyOf(scope, missing[i]), one, int64(size))
	}
	return out, nil
}

// resolveInto halves a list that cannot be read as a whole until what cannot be read stands alone.
func (r *Reader) resolveInto(ctx context.Context, scope cas.Scope, refs []cas.MessageRef, out []body) error {
	raws, err := r.resolver.Messages(ctx, scope, refs)
	if err == nil {
		for i, raw := range raws {
			out[i] = bodyOf(refs[i], raw)
		}
		return nil
	}
	notice := objectNotice(refs[0].Digest, err)
	if notice == nil {
		return err
	}
	if len(refs) == 1 {
		out[0] = body{notice: notice}
		return nil
	}
	half := len(refs) / 2
	if err := r.resolveInto(ctx, scope, refs[:half], out[:half]); err != nil {
		return err
	}
	return r.resolveInto(ctx, scope, refs[half:], out[half:])
}

// bodyOf looks into a message. JSON that is no message of today is kept as it is.
func bodyOf(ref cas.MessageRef, raw []byte) body {
	out := body{raw: raw, digest: cas.Of(raw)}
	decoded, err := message.Decode(raw)
	switch {
	case err == nil:
		out.role, out.callID = decoded.Role, decoded.ToolCallID
	case !json.Valid(raw):
		return body{notice: &Notice{Code: CodeNewObject, Digest: ref.Digest, Message: "The stored message is not JSON."}}
	}
	out.safe = safeMember("message", raw)
	return out
}

// safeMember is the value of a member as it may leave, on one line; nil when it must not. raw must be valid JSON.
func safeMember(name string, raw []byte) []byte {
	if bytes.ContainsAny(raw, "\r\n") { // never inside of a JSON string
		var line bytes.Buffer
		if json.Compact(&line, raw) != nil {
			return nil
		}
		raw = line.Bytes()
	}
	safe, err := redactMember(name, raw)
	if err != nil {
		return nil
	}
	if bytes.Equal(safe, raw) {
		return raw
	}
	return safe
}
