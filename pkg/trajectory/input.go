package trajectory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/session"
)

// ModelInput is the fixed input of one request, taken apart.
type ModelInput struct {
	Purpose     string             `json:"purpose"`
	Model       ModelName          `json:"model"`
	Parameters  session.Parameters `json:"parameters"`
	ContextRef  cas.Ref            `json:"contextRef"`
	InputDigest cas.Digest         `json:"inputDigest"`
	InputSize   int64              `json:"inputSize"`
	// Verified says that the parts make exactly the bytes that were fixed.
	Verified bool           `json:"verified"`
	System   *SystemPrompt  `json:"system,omitempty"`
	Messages []InputMessage `json:"messages"`
	Tools    []message.Tool `json:"tools"`
	// safeTools are the tools as they may leave; nil when they were not encoded yet.
	safeTools []byte
}

// SystemPrompt is the prompt as the model got it, and the sections that it was rendered from when they are certain.
type SystemPrompt struct {
	Text       string          `json:"text"`
	Sections   []SystemSection `json:"sections"`
	Provenance string          `json:"provenance"`
	Reason     string          `json:"reason,omitempty"`
}

// The verdicts about where a system prompt came from.
const (
	ProvenanceVerified    = "verified"
	ProvenanceUnavailable = "unavailable"
	ProvenanceNone        = "none"
)

// SystemSection is one section of the prompt.
type SystemSection struct {
	ID     string     `json:"id"`
	Text   string     `json:"text"`
	Digest cas.Digest `json:"digest"`
}

// InputMessage is one message of the input with its row of the source map.
type InputMessage struct {
	Index          int                        `json:"index"`
	Role           string                     `json:"role"`
	Digest         cas.Digest                 `json:"digest,omitzero"`
	Message        json.RawMessage            `json:"message,omitempty"`
	Source         *projection.Source         `json:"source,omitempty"`
	SkillExpansion *projection.SkillExpansion `json:"skillExpansion,omitempty"`
	Unavailable    string                     `json:"unavailable,omitempty"`
	// safe is Message as it may leave.
	safe json.RawMessage
}

// Assembly says how the input was put together.
type Assembly struct {
	HistoryMessageCount int                         `json:"historyMessageCount"`
	Sources             []projection.Source         `json:"sources"`
	SkillExpansions     []projection.SkillExpansion `json:"skillExpansions"`
	Budget              budget.ContextBudget        `json:"budget"`
	Estimator           string                      `json:"estimator"`
	Admitted            []session.AdmittedSection   `json:"admitted"`
	Rendered            []string                    `json:"rendered"`
	State               *cas.Ref                    `json:"state,omitempty"`
	Prefix              string                      `json:"prefix,omitempty"`
	Compaction          string                      `json:"compaction,omitempty"`
	Dispatched          bool                        `json:"dispatched"`
	Provenance          string                      `json:"provenance"`
}

// input fills in a fixed input and its assembly record.
func (d *detail) input(ctx context.Context, ref cas.Ref) error {
	snapshot, notice, err := load[session.ContextSnapshot](ctx, d.reader, d.index.Scope, ref)
	if err != nil {
		return err
	}
	if notice != nil {
		d.note(*notice)
		return nil
	}
	if d.limit > 0 && snapshot.InputSize > d.limit {
		return fmt.Errorf("%w: its input has %d bytes, at most %d are shown", ErrTooLarge, snapshot.InputSize, d.limit)
	}
	in := &ModelInput{
		Purpose: string(snapshot.Purpose), Parameters: snapshot.Parameters, ContextRef: ref, InputDigest: snapshot.InputDigest,
		InputSize: snapshot.InputSize, Messages: []InputMessage{}, Tools: []message.Tool{},
		Model: ModelName{Provider: snapshot.Model.Provider, API: string(snapshot.Model.API), ID: snapshot.Model.ID},
	}
	d.Input, d.Assembly = in, assemblyOf(snapshot.Assembly)
	if d.extent == extentBare {
		return nil
	}
	if d.extent == extentDeclared {
		_, err := d.declare(ctx, snapshot.Tools)
		return err
	}
	sections, whole, err := d.sections(ctx, snapshot.System)
	if err != nil {
		return err
	}
	known, err := d.declare(ctx, snapshot.Tools)
	if err != nil {
		return err
	}
	raws, complete, err := d.messages(ctx, snapshot)
	if err != nil {
		return err
	}
	prompt := projection.RenderSystem(sections)
	if whole && known && complete {
		in.Verified = d.materialize(prompt, raws, in.Tools) == snapshot.InputDigest
		if !in.Verified {
			d.note(Notice{Code: CodeMismatch, Digest: snapshot.InputDigest, Message: "The stored parts do not make the input that was fixed."})
		}
	}
	if snapshot.System != nil {
		in.System = provenance(snapshot.Assembly, sections, prompt)
		d.Assembly.Provenance = in.System.Provenance
		if in.System.Provenance == ProvenanceUnavailable {
			d.note(Notice{Code: CodeUnavailable, Message: "The source of the system prompt is unavailable: " + in.System.Reason})
		}
	}
	return nil
}

// declare fills in the tools; it is false when they could not be read.
func (d *detail) declare(ctx context.Context, ref *cas.Ref) (bool, error) {
	tools, known, err := d.tools(ctx, ref)
	if len(tools.declared) > 0 {
		d.Input.Tools, d.Input.safeTools = tools.declared, tools.safe
	}
	return known, err
}

// materialize puts an input's parts together as they were fixed and returns the digest of that.
func (d *detail) materialize(prompt string, raws [][]byte, tools []message.Tool) cas.Digest {
	buf := buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds nothing else
	defer buffers.Put(buf)
	buf.Reset()
	size := len(prompt) + 64
	for _, raw := range raws {
		size += len(raw) + 1
	}
	for i := range tools {
		size += len(tools[i].Name) + len(tools[i].Description) + len(tools[i].Parameters) + 64
	}
	buf.Grow(size + size/64) // for what is escaped
	input := session.AppendInput(buf.AvailableBuffer(), prompt, raws, tools)
	if d.wanted {
		d.raw = bytes.Clone(input)
	}
	return cas.Of(input)
}

func assemblyOf(record session.AssemblyRecord) *Assembly {
	out := &Assembly{
		HistoryMessageCount: record.HistoryMessageCount, Sources: session.UnpackSources(record.Sources),
		SkillExpansions: record.SkillExpansions, Budget: record.Budget, Estimator: record.Estimator,
		Admitted: record.Admitted.Sections, Rendered: record.Rendered.SectionIDs, State: record.State, Prefix: record.Prefix,
		Compaction: record.Compaction, Dispatched: record.Dispatched, Provenance: ProvenanceNone,
	}
	if out.Sources == nil {
		out.Sources = []projection.Source{}
	}
	if out.SkillExpansions == nil {
		out.SkillExpansions = []projection.SkillExpansion{}
	}
	if out.Admitted == nil {
		out.Admitted = []session.AdmittedSection{}
	}
	if out.Rendered == nil {
		out.Rendered = []string{}
	}
	return out
}

// parts are what most inputs of a session have in common, read once for all of them.
type parts struct {
	ref      cas.Ref
	sections []projection.Section
	declared []message.Tool
	// safe are the declared tools as they may leave.
	safe []byte
}

// partBytes bounds the parts that a reader keeps.
const partBytes = 2 << 20

// part reads an object that most inputs share. It is false when it could not be read.
func (d *detail) part(ref *cas.Ref, read func() (parts, *Notice, error)) (parts, bool, error) {
	if ref == nil {
		return parts{}, true, nil
	}
	key := bodyKey{d.index.Scope, ref.Digest, -1}
	if known, ok := d.reader.parts.Get(key); ok && known.ref == *ref {
		return known, true, nil
	}
	one, notice, err := read()
	if notice != nil {
		d.note(*notice)
	}
	if notice != nil || err != nil {
		return one, false, err
	}
	one.ref = *ref
	d.reader.parts.Add(key, one, 2*ref.Size+int64(len(one.safe))+bodyOverhead)
	return one, true, nil
}

// sections are those of the stored prompt; false when they could not be read.
func (d *detail) sections(ctx context.Context, ref *cas.Ref) ([]projection.Section, bool, error) {
	one, known, err := d.part(ref, func() (parts, *Notice, error) {
		stored, notice, err := load[session.Sections](ctx, d.reader, d.index.Scope, *ref)
		return parts{sections: stored.Sections}, notice, err
	})
	return one.sections, known, err
}

// tools are the declared tools as the model saw them; false when they could not be read.
func (d *detail) tools(ctx context.Context, ref *cas.Ref) (parts, bool, error) {
	return d.part(ref, func() (parts, *Notice, error) {
		var one parts
		stored, notice, err := load[session.ToolSet](ctx, d.reader, d.index.Scope, *ref)
		for _, definition := range stored.Tools {
			one.declared = append(one.declared, definition.Tool)
		}
		var w writer
		if w.value("tools", one.declared); w.err == nil {
			one.safe = w.out
		}
		return one, notice, err
	})
}

// messages fills in the input's messages and returns their exact bytes; false when one of them could not be read.
func (d *detail) messages(ctx context.Context, snapshot session.ContextSnapshot) ([][]byte, bool, error) {
	refs, err := cas.ReadList(ctx, d.reader.store, d.index.Scope, snapshot.Messages)
	if err != nil {
		notice := objectNotice(cas.Digest{}, err)
		if notice == nil {
			return nil, false, fmt.Errorf("read the input's messages: %w", err)
		}
		notice.Message = "The list of the input's messages is missing or damaged."
		d.note(*notice)
		return nil, false, nil
	}
	bodies, err := d.reader.resolve(ctx, d.index.Scope, refs)
	if err != nil {
		return nil, false, err
	}
	complete := true
	raws := make([][]byte, len(bodies))
	d.Input.Messages = slices.Grow(d.Input.Messages, len(bodies))
	sources, expansions := d.Assembly.Sources, d.Assembly.SkillExpansions
	for i, body := range bodies {
		m := InputMessage{Index: i, Role: body.roleName(), Message: body.raw, Digest: body.digest, Unavailable: body.problem(), safe: body.safe}
		if body.notice != nil {
			complete = false
			d.note(*body.notice)
		}
		if len(sources) == len(bodies) {
			m.Source = &sources[i]
			m.SkillExpansion = expansionOf(expansions, sources[i])
		}
		raws[i] = body.raw
		d.Input.Messages = append(d.Input.Messages, m)
	}
	if len(sources) != len(bodies) {
		d.note(Notice{Code: CodeUnavailable, Message: "The source map does not describe these messages: it has another number of rows."})
	}
	return raws, complete, nil
}

// expansionOf is the snapshot that was put in front of a history message's own text.
func expansionOf(expansions []projection.SkillExpansion, source projection.Source) *projection.SkillExpansion {
	if source.Type != projection.SourceHistory {
		return nil
	}
	for i := range expansions {
		if expansions[i].MessageIndex == source.MessageIndex {
			return &expansions[i]
		}
	}
	return nil
}

// provenance checks that the admitted sections, in the order in which they were rendered, make the prompt.
func provenance(record session.AssemblyRecord, sections []projection.Section, prompt string) *SystemPrompt {
	out := &SystemPrompt{Text: prompt, Sections: []SystemSection{}, Provenance: ProvenanceUnavailable}
	byID := make(map[string]projection.Section, len(sections))
	for _, section := range sections {
		byID[section.Name] = section
	}
	admitted := make(map[string]cas.Digest, len(record.Admitted.Sections))
	for _, section := range record.Admitted.Sections {
		admitted[section.ID] = section.Digest
	}
	rendered := make([]projection.Section, 0, len(record.Rendered.SectionIDs))
	for _, id := range record.Rendered.SectionIDs {
		section, stored := byID[id]
		digest, let := admitted[id]
		if !stored || !let || digest != cas.Of([]byte(section.Text)) {
			out.Reason = fmt.Sprintf("section %q was not admitted with the stored text", id)
			return out
		}
		rendered = append(rendered, section)
	}
	if projection.RenderSystem(rendered) != prompt {
		out.Reason = "the recorded sections do not make the prompt"
		return out
	}
	for _, section := range rendered {
		out.Sections = append(out.Sections, SystemSection{ID: section.Name, Text: section.Text, Digest: admitted[section.Name]})
	}
	out.Provenance = ProvenanceVerified
	return out
}
