package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/session"
)

// opened is what was found in an object.
type opened struct {
	links []link
	// lists are the message lists that it holds, by field; context is set for a model input.
	lists   map[string]cas.MessageList
	context *session.ContextSnapshot
	// body is the media type of what the parts of the object make.
	body string
}

// open takes an object of a kind apart. An error says what is wrong with it.
func open(l link, raw []byte) (opened, error) {
	f := &finder{from: l.from, path: l.path + "."}
	out := opened{}
	var err error
	switch kindOf(l.ref.MediaType, raw) {
	case cas.MediaRunConfig:
		err = with(raw, f.config)
	case cas.MediaContext:
		err = with(raw, func(c session.ContextSnapshot) {
			f.context(c)
			out.context, out.lists = &c, map[string]cas.MessageList{"messages": c.Messages}
		})
	case cas.MediaModelAction:
		err = with(raw, f.action)
	case cas.MediaState:
		err = with(raw, func(s session.AgentState) {
			f.state(s)
			out.lists = map[string]cas.MessageList{"history": s.History}
		})
	case cas.MediaToolSet:
		err = with(raw, func(session.ToolSet) {})
	case cas.MediaSections:
		err = with(raw, func(session.Sections) {})
	case cas.MediaSnapshot:
		err = with(raw, func(session.Snapshot) {})
	case cas.MediaCheckpoint:
		err = with(raw, func(session.Checkpoint) {})
	case cas.MediaSkill:
		err = with(raw, func(session.Skill) {})
	case cas.MediaSegment:
		err = f.segment(raw)
	case cas.MediaParts:
		out.body, err = f.parts(raw)
	case cas.MediaMessage:
		err = f.whole(raw)
	}
	out.links = f.found
	return out, err
}

// kindOf is the media type of an object; of a container it is found out from its members.
func kindOf(mediaType string, raw []byte) string {
	if mediaType != mediaContainer {
		return mediaType
	}
	var members struct {
		Step json.RawMessage `json:"step"`
	}
	if json.Unmarshal(raw, &members) == nil && members.Step != nil {
		return cas.MediaState
	}
	return cas.MediaModelAction
}

func with[T any](raw []byte, use func(T)) error {
	object, err := session.DecodeObject[T](raw)
	if err == nil {
		use(object)
	}
	return err
}

func (f *finder) segment(raw []byte) error {
	var s cas.Segment
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("%w: %w", cas.ErrCorrupt, err)
	}
	for i := range s.Messages {
		f.messageRef(at("messages", i), &s.Messages[i])
	}
	return nil
}

// parts finds the parts of a body, and says what the body is.
func (f *finder) parts(raw []byte) (string, error) {
	var list cas.Parts
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", fmt.Errorf("%w: %w", cas.ErrCorrupt, err)
	}
	var size int64
	for i := range list.Parts {
		f.ref(at("parts", i), &list.Parts[i], mediaText)
		size += list.Parts[i].Size
	}
	if size != list.Size {
		return "", fmt.Errorf("%w: the parts have %d bytes, the body has %d", cas.ErrCorrupt, size, list.Size)
	}
	return list.MediaType, nil
}

func (f *finder) whole(raw []byte) error {
	m, err := message.Decode(raw)
	if err != nil {
		return fmt.Errorf("%w: the object is no message", session.ErrFormat)
	}
	f.message("message", m)
	return nil
}

// inlineMessages are the indexes of the messages that a container holds.
func inlineMessages(raw []byte) map[int]bool {
	var container struct {
		Message json.RawMessage `json:"message"`
		Step    *struct {
			Messages []session.StepMessage `json:"messages"`
		} `json:"step"`
	}
	held := map[int]bool{}
	if json.Unmarshal(raw, &container) != nil {
		return held
	}
	held[0] = container.Message != nil && !bytes.Equal(container.Message, []byte("null"))
	if container.Step != nil {
		for i, m := range container.Step.Messages {
			held[i] = held[i] || m.Inline != nil
		}
	}
	return held
}

// isContainer says whether messages can be asked of objects of a media type.
func isContainer(mediaType string) bool {
	return mediaType == mediaContainer || mediaType == cas.MediaState || mediaType == cas.MediaModelAction
}

// codeOf says what an object's error means; false when the store could not say.
func codeOf(err error) (Code, string, bool) {
	switch {
	case errors.Is(err, cas.ErrNotFound):
		return CodeMissing, "The object is not in the session's part of the store.", true
	case errors.Is(err, session.ErrFormat):
		return CodeNewObject, "The object has a form that this program does not know; what it refers to was not looked at.", true
	case errors.Is(err, cas.ErrCorrupt):
		return CodeCorrupt, "The stored bytes are not what their digest, size or kind says.", true
	case errors.Is(err, cas.ErrTooLarge), errors.Is(err, cas.ErrInvalid):
		return CodeReference, "The reference names no object that could be there.", true
	}
	return "", "", false
}
