package projection

import (
	"bytes"
	"slices"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// Result is one projected request. Rows share text and block lists with history, and a Projector's later results share
// rows with earlier ones: read it, or Clone it before anything that may write.
type Result struct {
	System   string
	Messages []message.Message
	// Tools is nil when there are none.
	Tools []message.Tool
	// Projection is the source map; it holds no instruction text.
	Projection ModelInputProjection
	// Unaltered[i] says that row i is, byte for byte, the history message its source names.
	Unaltered []bool
	// Prefix is what the reply to this request is produced under; the assistant message records it.
	Prefix string
	// ThinkingOff says that a reply of the unfinished turn stands without the thinking it was given with, because its
	// prefix changed or another model gave it. Providers refuse such a turn with thinking on: send it with thinking off.
	ThinkingOff bool
}

// Clone returns a copy that shares nothing that can be written to.
func (r Result) Clone() Result {
	r.Messages = slices.Clone(r.Messages)
	for i := range r.Messages {
		r.Messages[i] = r.Messages[i].Clone()
	}
	r.Tools = slices.Clone(r.Tools)
	for i := range r.Tools {
		r.Tools[i].Parameters = slices.Clone(r.Tools[i].Parameters)
	}
	r.Projection = r.Projection.Clone()
	r.Unaltered = slices.Clone(r.Unaltered)
	return r
}

// Project returns the request that in gives. Errors wrap ErrInvalidProjection.
func Project(in Input) (Result, error) {
	p := Projector{once: true}
	return p.Project(in)
}

// Projector projects a growing history. Its results are those of Project; it only saves the work that an earlier call
// has done when history and snapshots grew and nothing else changed. The zero value is ready. It keeps copies of the
// message values it has seen, which share their text and blocks with history. It is not safe for concurrent use.
type Projector struct {
	// once says that there will be no second call: history need not be kept apart from the caller's list.
	once     bool
	history  []message.Message
	digests  []Digest
	digested []bool
	scratch  []byte

	model      provider.Model
	sections   []Section
	system     string
	tools      []message.Tool
	checkpoint *Checkpoint
	snapshots  []Snapshot
	assembly   *assembly
}

// Project returns the request that in gives. Errors wrap ErrInvalidProjection.
func (p *Projector) Project(in Input) (Result, error) {
	if err := in.check(); err != nil {
		return Result{}, err
	}
	grown := p.observe(in.History)
	if !grown || !p.continues(&in) {
		p.restart(&in)
	}
	p.snapshots = slices.Clone(in.Snapshots)
	a := p.assembly
	a.snapshots = p.snapshots
	for i := a.consumed; i < len(p.history); i++ {
		if err := a.take(i, p.history[i]); err != nil {
			p.assembly = nil
			return Result{}, err
		}
	}
	a.consumed = len(p.history)
	if a.nextSnapshot < len(a.snapshots) {
		p.assembly = nil
		return Result{}, invalid("snapshot %d: userTurn %d is not below the %d user messages of history",
			a.nextSnapshot, a.snapshots[a.nextSnapshot].UserTurn, a.users)
	}
	return p.result(), nil
}

// observe takes over history and says whether it only grew. Digests of messages that stayed are kept.
func (p *Projector) observe(history []message.Message) bool {
	if p.once {
		p.history, p.digests, p.digested = history, make([]Digest, len(history)), make([]bool, len(history))
		return false
	}
	same := 0
	for same < len(p.history) && same < len(history) && equalMessage(&p.history[same], &history[same]) {
		same++
	}
	grown := same == len(p.history)
	p.history = append(p.history[:same], history[same:]...)
	p.digests = append(p.digests[:same], make([]Digest, len(history)-same)...)
	p.digested = append(p.digested[:same], make([]bool, len(history)-same)...)
	return grown
}

// continues says whether the rows that are there are the beginning of what in gives.
func (p *Projector) continues(in *Input) bool {
	if p.assembly == nil || !sameModel(p.model, in.Model) || !equalCheckpoint(p.checkpoint, in.Checkpoint) {
		return false
	}
	if !slices.Equal(p.sections, in.System) || !slices.EqualFunc(p.tools, in.Tools, equalTool) {
		return false
	}
	if len(in.Snapshots) < len(p.snapshots) || !slices.EqualFunc(p.snapshots, in.Snapshots[:len(p.snapshots)], equalSnapshot) {
		return false
	}
	// A new snapshot whose anchor has been passed would be missed.
	return len(in.Snapshots) == len(p.snapshots) || in.Snapshots[len(p.snapshots)].UserTurn >= p.assembly.users
}

func (p *Projector) restart(in *Input) {
	p.model, p.sections, p.tools, p.checkpoint = in.Model, slices.Clone(in.System), slices.Clone(in.Tools), nil
	if in.Checkpoint != nil {
		c := *in.Checkpoint
		p.checkpoint = &c
	}
	p.system = RenderSystem(in.System)
	p.assembly = newAssembly(in, p.system, p.digest)
	p.assembly.checkpoint = p.checkpoint
}

// digest computes the digest of a history message once.
func (p *Projector) digest(index int) Digest {
	if !p.digested[index] {
		p.digests[index], p.scratch = appendDigest(p.scratch, p.history[index])
		p.digested[index] = true
	}
	return p.digests[index]
}

func (p *Projector) result() Result {
	done := p.assembly.finish()
	return Result{
		System: p.system,
		// Clipped, so that appending to a result never reaches what a later one will hold.
		Messages: slices.Clip(done.rows),
		Tools:    slices.Clone(p.tools[:len(p.tools):len(p.tools)]),
		Projection: ModelInputProjection{HistoryMessageCount: len(p.history), Sources: slices.Clip(done.sources),
			SkillExpansions: slices.Clip(done.expansions)},
		Unaltered:   slices.Clip(done.unaltered),
		Prefix:      done.prefix.String(),
		ThinkingOff: done.lostThinking,
	}
}

func sameModel(a, b provider.Model) bool {
	return a.Provider == b.Provider && a.API == b.API && a.ID == b.ID && a.Images == b.Images
}

func equalCheckpoint(a, b *Checkpoint) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func equalTool(a, b message.Tool) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Parameters, b.Parameters)
}

func equalSnapshot(a, b Snapshot) bool {
	return a.UserTurn == b.UserTurn && a.Placement == b.Placement && a.Content == b.Content && slices.Equal(a.Skills, b.Skills)
}

// equalMessage compares two messages. Strings and lists that are one and the same in memory cost nothing: messages are
// immutable, and a history that grew shares all of them.
func equalMessage(a, b *message.Message) bool {
	return a.Role == b.Role && a.Provider == b.Provider && a.API == b.API && a.Model == b.Model &&
		a.StopReason == b.StopReason && a.ErrorMessage == b.ErrorMessage && a.Prefix == b.Prefix &&
		a.ToolCallID == b.ToolCallID && a.ToolName == b.ToolName && a.IsError == b.IsError &&
		a.Content.IsText == b.Content.IsText && a.Content.Text == b.Content.Text &&
		equalBlocks(a.Content.Blocks, b.Content.Blocks) && equalUsage(a.Usage, b.Usage) && bytes.Equal(a.Details, b.Details)
}

func equalBlocks(a, b []message.Block) bool {
	if len(a) != len(b) || len(a) == 0 || &a[0] == &b[0] {
		return len(a) == len(b)
	}
	return slices.EqualFunc(a, b, func(x, y message.Block) bool {
		return x.Type == y.Type && x.Text == y.Text && x.TextSignature == y.TextSignature && x.Thinking == y.Thinking &&
			x.ThinkingSignature == y.ThinkingSignature && x.Redacted == y.Redacted && x.MediaType == y.MediaType &&
			x.Data == y.Data && equalRef(x.Ref, y.Ref) && x.ID == y.ID && x.Name == y.Name &&
			bytes.Equal(x.Arguments, y.Arguments) && x.ThoughtSignature == y.ThoughtSignature
	})
}

func equalRef(a, b *message.BlobRef) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func equalUsage(a, b *message.Usage) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	equal := func(x, y *int64) bool { return x == y || x != nil && y != nil && *x == *y }
	return a.Cost == b.Cost && equal(a.Input, b.Input) && equal(a.Output, b.Output) &&
		equal(a.CacheRead, b.CacheRead) && equal(a.CacheWrite, b.CacheWrite) && equal(a.Reasoning, b.Reasoning)
}
