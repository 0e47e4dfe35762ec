package atif

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// ErrInvalid is returned for a document that the format does not allow.
var ErrInvalid = errors.New("not a valid ATIF document")

func invalid(where, format string, arguments ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalid, where, fmt.Sprintf(format, arguments...))
}

// strict reads one JSON value that has no members but those of into.
func strict(raw []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// Validate checks one document by the rules of version 1.7: no unknown members outside of "extra", one step or more, numbered
// from 1, members of responses on steps of the agent only, results only of calls of the same step, and names of documents that are
// unique and can be found.
func Validate(raw []byte) error {
	var t Trajectory
	if err := strict(raw, &t); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return t.validate("document")
}

func (t *Trajectory) validate(where string) error {
	switch {
	case t.SchemaVersion != SchemaVersion:
		return invalid(where, "schema_version is %q", t.SchemaVersion)
	case t.Agent == nil || t.Agent.Name == "" || t.Agent.Version == "":
		return invalid(where, "agent has no name or no version")
	case len(t.Steps) == 0:
		return invalid(where, "there are no steps")
	}
	for i, definition := range t.Agent.ToolDefinitions {
		if !isObject(definition) {
			return invalid(where, "tool definition %d is no object", i)
		}
	}
	inside := map[string]bool{}
	for i, sub := range t.Subagents {
		if sub == nil || sub.TrajectoryID == "" || inside[sub.TrajectoryID] {
			return invalid(where, "subagent trajectory %d has no trajectory_id of its own", i)
		}
		inside[sub.TrajectoryID] = true
		if err := sub.validate(fmt.Sprintf("%s, subagent trajectory %d", where, i)); err != nil {
			return err
		}
	}
	for i := range t.Steps {
		here := fmt.Sprintf("%s, step %d", where, i+1)
		if t.Steps[i].StepID != i+1 {
			return invalid(here, "step_id is %d", t.Steps[i].StepID)
		}
		if err := t.Steps[i].validate(here, inside); err != nil {
			return err
		}
	}
	if m := t.FinalMetrics; m != nil && m.Steps != nil && *m.Steps < 0 {
		return invalid(where, "total_steps is negative")
	}
	return nil
}

func (s *Step) validate(where string, subagents map[string]bool) error {
	if s.Timestamp != "" {
		if _, err := time.Parse(time.RFC3339Nano, s.Timestamp); err != nil {
			return invalid(where, "timestamp %q", s.Timestamp)
		}
	}
	if s.LLMCallCount != nil && *s.LLMCallCount < 0 {
		return invalid(where, "llm_call_count is negative")
	}
	if err := s.Message.validate(where); err != nil {
		return err
	}
	switch s.Source {
	case SourceAgent:
	case SourceSystem, SourceUser:
		if s.ModelName != "" || s.ReasoningEffort != nil || s.ReasoningContent != "" || s.ToolCalls != nil || s.Metrics != nil {
			return invalid(where, "it has members that only steps of the agent have")
		}
	default:
		return invalid(where, "source is %q", s.Source)
	}
	calls := map[string]bool{}
	for _, call := range s.ToolCalls {
		if call.ID == "" || call.Name == "" || !isObject(call.Arguments) {
			return invalid(where, "a tool call has no id, no name, or arguments that are no object")
		}
		calls[call.ID] = true
	}
	if s.Observation == nil {
		return nil
	}
	for _, result := range s.Observation.Results {
		if err := result.validate(where, calls, subagents); err != nil {
			return err
		}
	}
	return nil
}

func (r *Result) validate(where string, calls, subagents map[string]bool) error {
	if r.SourceCallID != "" && !calls[r.SourceCallID] {
		return invalid(where, "a result is of call %q, which the step does not have", r.SourceCallID)
	}
	for _, ref := range r.Subagents {
		if ref.TrajectoryPath == "" && !subagents[ref.TrajectoryID] {
			return invalid(where, "a result refers to trajectory %q, which is not inside", ref.TrajectoryID)
		}
	}
	if r.Content == nil {
		return nil
	}
	return r.Content.validate(where)
}

// imageTypes are the images that the format knows.
var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

func (c *Content) validate(where string) error {
	for i, p := range c.Parts {
		text := p.Type == "text" && p.Text != nil && p.Source == nil
		image := p.Type == "image" && p.Text == nil && p.Source != nil && p.Source.Path != "" && slices.Contains(imageTypes, p.Source.MediaType)
		if !text && !image {
			return invalid(where, "part %d is neither a text nor an image", i)
		}
	}
	return nil
}

func isObject(raw []byte) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) > 0 && trimmed[0] == '{'
}
