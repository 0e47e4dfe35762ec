package session

import (
	"encoding/json"
	"fmt"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
)

// AppendInput appends the exact bytes of a materialised model input: {"system","messages","tools"}, with messages given
// in their canonical JSON. system and tools are left out when they are empty.
func AppendInput(dst []byte, system string, messages [][]byte, tools []message.Tool) []byte {
	dst = append(dst, '{')
	if system != "" {
		dst = append(dst, `"system":`...)
		dst = message.AppendString(dst, system)
		dst = append(dst, ',')
	}
	dst = append(dst, `"messages":[`...)
	for i, raw := range messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, raw...)
	}
	dst = append(dst, ']')
	if len(tools) > 0 {
		dst = append(dst, `,"tools":[`...)
		for i := range tools {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = tools[i].AppendJSON(dst)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// MessageIn returns the canonical JSON of the message at index inside a container object: the message of a ModelAction
// (index 0) or a message that an AgentState's step holds inline.
func MessageIn(container []byte, index int) (json.RawMessage, error) {
	if found, ok := inContainer(container, index); ok {
		return found, nil
	}
	return messageIn(container, index)
}

func messageIn(container []byte, index int) (json.RawMessage, error) {
	var probe struct {
		V       int             `json:"v"`
		Message json.RawMessage `json:"message"`
		Step    *struct {
			Messages []StepMessage `json:"messages"`
		} `json:"step"`
	}
	if err := json.Unmarshal(container, &probe); err != nil {
		return nil, fmt.Errorf("%w: container: %w", ErrFormat, err)
	}
	if probe.V != ObjectVersion {
		return nil, fmt.Errorf("%w: container version %d", ErrFormat, probe.V)
	}
	if probe.Message != nil && index == 0 {
		return probe.Message, nil
	}
	if probe.Step != nil && index >= 0 && index < len(probe.Step.Messages) && probe.Step.Messages[index].Inline != nil {
		return probe.Step.Messages[index].Inline, nil
	}
	return nil, fmt.Errorf("%w: container has no message %d", ErrFormat, index)
}

// StepRefs returns the references under which the messages of a committed step are known from then on. self is the
// digest of the state that holds the step.
func (s Step) StepRefs(self cas.Digest) []cas.MessageRef {
	refs := make([]cas.MessageRef, len(s.Messages))
	for i, m := range s.Messages {
		if m.Ref != nil {
			refs[i] = *m.Ref
			continue
		}
		refs[i] = InContainer(self, i)
	}
	return refs
}

// InContainer references the message at index inside the object that digest names.
func InContainer(digest cas.Digest, index int) cas.MessageRef {
	return cas.MessageRef{Digest: digest, Index: &index}
}
