package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/tool"
)

// ObjectVersion is the format version that every object of this package carries in "v".
const ObjectVersion = 1

// ErrFormat is returned when an object has another format version or is not what its reference says.
var ErrFormat = errors.New("stored object has an unknown format")

// RunConfig is what a run works under, fixed by its first run.started: a takeover continues with it. It holds no secret.
type RunConfig struct {
	V         int            `json:"v"`
	Operation string         `json:"operation"`
	Agent     string         `json:"agent"`
	Model     provider.Model `json:"model"`
	Reasoning provider.Level `json:"reasoning,omitempty"`
	// MaxOutputTokens is the caller's output cap in tokens; 0 when there is none.
	MaxOutputTokens int64                `json:"maxOutputTokens,omitempty"`
	Sampling        json.RawMessage      `json:"sampling,omitempty"`
	PromptCache     bool                 `json:"promptCache,omitempty"`
	Sections        []projection.Section `json:"sections,omitempty"`
	// Context is the rendered host runtime context at run start; it becomes a snapshot when its content changed.
	Context string                      `json:"context,omitempty"`
	Skills  []projection.SkillSelection `json:"skills,omitempty"`
	// Loadable are the Skills that the model may load by itself.
	Loadable []LoadableSkill `json:"loadable,omitempty"`
	ToolSet  *cas.Ref        `json:"toolSet,omitempty"`
	Limits   Limits          `json:"limits"`
	// Compaction says when older history is replaced by a summary, and OverflowRecovery that a request is compacted once
	// and sent again when the provider itself says that it is too long.
	Compaction       Compaction `json:"compaction,omitzero"`
	OverflowRecovery bool       `json:"overflowRecovery,omitempty"`
	// Estimator names the way in which tokens are estimated; empty for the heuristic. Calibrate multiplies estimates by
	// what earlier usage of the model showed.
	Estimator string `json:"estimator,omitempty"`
	Calibrate bool   `json:"calibrate,omitempty"`
	// Title asks for a title of the session after its first prompt.
	Title bool `json:"title,omitempty"`
	// Subagents are what the run may delegate to, and Depth how far below the session's own agent it stands: 0 for that one.
	Subagents []Subagent `json:"subagents,omitempty"`
	Depth     int        `json:"depth,omitempty"`
}

// Subagent is an agent that a run may delegate tasks to.
type Subagent struct {
	Name string `json:"name"`
	// Description tells the delegating model what it is for.
	Description string `json:"description"`
	// MaxTurns bounds the turns of one task, MaxParallel how many tasks may be under way at once; 0 for no bound.
	MaxTurns    int `json:"maxTurns,omitempty"`
	MaxParallel int `json:"maxParallel,omitempty"`
}

// LoadableSkill names a Skill that the model may load, and the Skill object that it is read from.
type LoadableSkill struct {
	ID       string  `json:"id"`
	Revision string  `json:"revision"`
	Name     string  `json:"name"`
	Object   cas.Ref `json:"object"`
}

// Skill is a Skill's files as they were when a run began.
type Skill struct {
	V  int    `json:"v"`
	ID string `json:"id"`
	// Revision is the digest of SKILL.md or, of a Skill with more files, of the list of their digests.
	Revision string `json:"revision"`
	Name     string `json:"name"`
	// Instructions are SKILL.md without its front matter.
	Instructions string `json:"instructions"`
	// Files are the others, sorted by name.
	Files []SkillFile `json:"files,omitempty"`
}

// SkillFile is one file of a Skill besides SKILL.md.
type SkillFile struct {
	Name string `json:"name"`
	// Size is in bytes. Text is absent when the file is not text.
	Size int64  `json:"size"`
	Text string `json:"text,omitempty"`
	// Binary says that the file is not text and was not kept.
	Binary bool `json:"binary,omitempty"`
}

// Compaction is when and with what older history is summarised.
type Compaction struct {
	// Automatic compacts before a request whose estimate has reached ThresholdPercent of the input limit; 0 stands for 90.
	Automatic        bool `json:"automatic,omitempty"`
	ThresholdPercent int  `json:"thresholdPercent,omitempty"`
	// Model writes the summary; nil for the run's own.
	Model *provider.Model `json:"model,omitempty"`
}

// Limits bound one run. Zero means no limit of that kind.
type Limits struct {
	MaxTurns       int   `json:"maxTurns,omitempty"`
	MaxTotalTokens int64 `json:"maxTotalTokens,omitempty"`
	MaxAttempts    int   `json:"maxAttempts,omitempty"`
	// SessionMaxTotalTokens bounds all runs of the session together.
	SessionMaxTotalTokens int64 `json:"sessionMaxTotalTokens,omitempty"`
	// ActiveDeadlineSeconds is counted from the run's first start.
	ActiveDeadlineSeconds int64 `json:"activeDeadlineSeconds,omitempty"`
	// RetryMaxAttempts and RetryMaxDelaySeconds bound the retries of one model request.
	RetryMaxAttempts     int `json:"retryMaxAttempts,omitempty"`
	RetryMaxDelaySeconds int `json:"retryMaxDelaySeconds,omitempty"`
}

// ToolSet is the tools of a run as discovered at its start.
type ToolSet struct {
	V     int               `json:"v"`
	Tools []tool.Definition `json:"tools"`
}

// Sections is the ordered system prompt as structured data.
type Sections struct {
	V        int                  `json:"v"`
	Sections []projection.Section `json:"sections"`
}

// AssemblyRecord says how a model input was put together and what was measured.
type AssemblyRecord struct {
	HistoryMessageCount int                         `json:"historyMessageCount"`
	Sources             []SourceRun                 `json:"sources"`
	SkillExpansions     []projection.SkillExpansion `json:"skillExpansions,omitempty"`
	Budget              budget.ContextBudget        `json:"budget"`
	Estimator           string                      `json:"estimator"`
	// Calibration is what was known of the model's real counts; absent when estimates were not corrected.
	Calibration *budget.Calibration `json:"calibration,omitempty"`
	// Admitted and Rendered are the provenance of the system prompt: the sections that were let in and the order in
	// which they were rendered.
	Admitted Admitted `json:"admitted"`
	Rendered Rendered `json:"rendered"`
	// State names the state version that the input was assembled from; absent before a session's first commit.
	State *cas.Ref `json:"state,omitempty"`
	// Prefix is the digest of system prompt, tools and messages that thinking in the response will be bound to.
	Prefix string `json:"prefix,omitempty"`
	// Compaction names the checkpoint that the input was projected with.
	Compaction string `json:"compaction,omitempty"`
	// Dispatched is false in the record of a request that does not fit. The record is fixed before the guard sees the
	// body: a request that the guard refuses has true here, and a model.rejected event.
	Dispatched bool `json:"dispatched"`
	// Summarized are the history messages that a summary request read.
	Summarized []SourceRun `json:"summarized,omitempty"`
}

// Admitted lists the system sections that took part.
type Admitted struct {
	Sections []AdmittedSection `json:"sections,omitempty"`
}

// AdmittedSection is one system section by name and the digest of its text.
type AdmittedSection struct {
	ID     string     `json:"id"`
	Digest cas.Digest `json:"digest"`
}

// Rendered lists the names of the sections in the order in which they stand in the prompt.
type Rendered struct {
	SectionIDs []string `json:"sectionIds,omitempty"`
}

// ContextSnapshot is the manifest of one fixed model input and its assembly record.
type ContextSnapshot struct {
	V       int              `json:"v"`
	Purpose runevent.Purpose `json:"purpose"`
	Model   ModelIdentity    `json:"model"`
	// System names the Sections object, Tools the ToolSet object; absent when there are none.
	System   *cas.Ref        `json:"system,omitempty"`
	Tools    *cas.Ref        `json:"tools,omitempty"`
	Messages cas.MessageList `json:"messages"`
	// Parameters are the request's settings besides its content.
	Parameters Parameters `json:"parameters"`
	// InputDigest and InputSize are of the exact bytes of the materialised input (see AppendInput).
	InputDigest cas.Digest     `json:"inputDigest"`
	InputSize   int64          `json:"inputSize"`
	Assembly    AssemblyRecord `json:"assembly"`
}

// ModelIdentity names the model that an input was for.
type ModelIdentity struct {
	Provider string       `json:"provider"`
	API      provider.API `json:"api"`
	ID       string       `json:"id"`
}

// Parameters are the request settings that the provider saw.
type Parameters struct {
	MaxTokens      int64           `json:"maxTokens,omitempty"`
	Reasoning      provider.Level  `json:"reasoning,omitempty"`
	ThinkingBudget int64           `json:"thinkingBudget,omitempty"`
	Sampling       json.RawMessage `json:"sampling,omitempty"`
}

// ModelAction is one complete model response.
type ModelAction struct {
	V                  int             `json:"v"`
	RequestExecutionID string          `json:"requestExecutionId"`
	Turn               int             `json:"turn"`
	ContextRef         cas.Ref         `json:"contextRef"`
	ResponseID         string          `json:"responseId,omitempty"`
	RawStopReason      string          `json:"rawStopReason,omitempty"`
	Message            message.Message `json:"message"`
}

// StepMessage is one message that a step adds to history: held inline, or stored as an object of its own.
type StepMessage struct {
	Ref    *cas.MessageRef `json:"ref,omitempty"`
	Inline json.RawMessage `json:"inline,omitempty"`
}

// Step is what a committed turn added.
type Step struct {
	Turn               int      `json:"turn"`
	RequestExecutionID string   `json:"requestExecutionId,omitempty"`
	ContextRef         *cas.Ref `json:"contextRef,omitempty"`
	// Action names the ModelAction, the same object as model.completed's payloadRef; absent when the turn failed.
	Action   *cas.Ref      `json:"action,omitempty"`
	Messages []StepMessage `json:"messages,omitempty"`
	// Terminal is the run's last event when the step is its last one, so that a takeover ends the run in the same way.
	Terminal *runevent.Event `json:"terminal,omitempty"`
}

// AgentState is the manifest of one committed state: the history before the step, then the step's messages.
type AgentState struct {
	V       int             `json:"v"`
	Agent   string          `json:"agent"`
	RunUID  string          `json:"runUid"`
	RunName string          `json:"runName"`
	History cas.MessageList `json:"history"`
	Step    Step            `json:"step"`
	// LastSequence is the stream's last entry that the state covers.
	LastSequence int64 `json:"lastSequence"`
	// Run is how far the run has come with this step.
	Run RunCounters `json:"run"`
	// Recent names the last runs that ended on this stream, newest last, so that one is never started again.
	Recent     []string  `json:"recent,omitempty"`
	Snapshots  []cas.Ref `json:"snapshots,omitempty"`
	Sections   *cas.Ref  `json:"sections,omitempty"`
	Checkpoint *cas.Ref  `json:"checkpoint,omitempty"`
	// ToolSet is the tools of the latest run that had connected its own; absent before there was one, and in states of earlier builds.
	ToolSet *cas.Ref `json:"toolSet,omitempty"`
	// Model is the model of the latest main request; another one in the next run is a model switch.
	Model ModelIdentity `json:"model"`
	// Earlier is the usage of the session's earlier runs; with the run's own it is the session's.
	Earlier Totals `json:"earlier"`
	// Title names the model action that holds the session's title; absent while it has none.
	Title *cas.Ref `json:"title,omitempty"`
}

// RunCounters is what a later reader needs to go on with a run without reading its earlier entries.
type RunCounters struct {
	Attempt   int       `json:"attempt"`
	Worker    string    `json:"worker,omitempty"`
	Config    *cas.Ref  `json:"config,omitempty"`
	StartedAt time.Time `json:"startedAt"`
	// Accepted says that the run's prompt is in the log. A run that was ended before it began has none there.
	Accepted bool `json:"accepted"`
	// Turn is the latest turn that was begun.
	Turn int `json:"turn"`
	// ToolCalls counts the calls of complete responses, whatever became of them.
	ToolCalls int `json:"toolCalls"`
	// Requests counts the main requests that were captured, completed or not, but for those that were refused before
	// dispatch.
	Requests int    `json:"requests"`
	Usage    Totals `json:"usage"`
	// LastContext names the context snapshot of the latest main request that was not refused before dispatch.
	LastContext *cas.Ref `json:"lastContext,omitempty"`
	// LastLimit is the output cap that its body declared, in tokens; nil before it was answered, or without a cap.
	LastLimit *int64 `json:"lastLimit,omitempty"`
	// Compactions counts the automatic compactions that were tried since a request was last below the threshold.
	Compactions int `json:"compactions,omitempty"`
	// Recovered is the latest turn whose input was compacted because the provider said that it was too long.
	Recovered int `json:"recovered,omitempty"`
	// WaitedMillis is how long the run has waited without a worker, in milliseconds: its active time stood still.
	WaitedMillis int64 `json:"waitedMillis,omitempty"`
	// Delegated is the usage of the runs that it delegated to and that have ended; its requests count those runs.
	Delegated Totals `json:"delegated,omitzero"`
	// Decided names the latest decisions about the run's calls that were taken, oldest first, at most maxDecided.
	Decided []string `json:"decided,omitempty"`
}

// maxDecided is how many decisions a run's counters name.
const maxDecided = 64

// Totals are sums over a run or a session. Requests counts captured main requests that came to an end;
// RequestsWithoutUsage those of them whose provider reported nothing, and those whose response never arrived. A count
// that no response carried is nil, never zero.
type Totals struct {
	Requests             int64  `json:"requests"`
	RequestsWithoutUsage int64  `json:"requestsWithoutUsage"`
	Input                *int64 `json:"input,omitempty"`
	Output               *int64 `json:"output,omitempty"`
	CacheRead            *int64 `json:"cacheRead,omitempty"`
	CacheWrite           *int64 `json:"cacheWrite,omitempty"`
	Reasoning            *int64 `json:"reasoning,omitempty"`
}

// Total is every counted token: input, output and cached ones.
func (t Totals) Total() int64 {
	var total int64
	for _, n := range []*int64{t.Input, t.Output, t.CacheRead, t.CacheWrite} {
		if n != nil {
			total += *n
		}
	}
	return total
}

// Add counts one response. A nil usage, or one without input and output, counts as a request without usage.
func (t *Totals) Add(u *message.Usage) {
	one := Totals{Requests: 1}
	if u != nil {
		one.Input, one.Output, one.CacheRead, one.CacheWrite, one.Reasoning = u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning
	}
	if one.Input == nil && one.Output == nil {
		one.RequestsWithoutUsage = 1
	}
	*t = t.Plus(one)
}

// Plus returns the sum of both.
func (t Totals) Plus(o Totals) Totals {
	return Totals{
		Requests: t.Requests + o.Requests, RequestsWithoutUsage: t.RequestsWithoutUsage + o.RequestsWithoutUsage,
		Input: sum(t.Input, o.Input), Output: sum(t.Output, o.Output), CacheRead: sum(t.CacheRead, o.CacheRead),
		CacheWrite: sum(t.CacheWrite, o.CacheWrite), Reasoning: sum(t.Reasoning, o.Reasoning),
	}
}

// PlusTokens returns t with the tokens of o.
func (t Totals) PlusTokens(o Totals) Totals {
	o.Requests, o.RequestsWithoutUsage = 0, 0
	return t.Plus(o)
}

// Reported returns the sums as the usage of one event; nil when no request reported any.
func (t Totals) Reported() *message.Usage {
	if t.Input == nil && t.Output == nil {
		return nil
	}
	return &message.Usage{Input: t.Input, Output: t.Output, CacheRead: t.CacheRead, CacheWrite: t.CacheWrite, Reasoning: t.Reasoning}
}

// sum adds counts of which either may be missing.
func sum(a, b *int64) *int64 {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	total := *a + *b
	return &total
}

// Snapshot is a stored runtime-context snapshot.
type Snapshot struct {
	V int `json:"v"`
	projection.Snapshot
}

// Checkpoint is a stored compaction.
type Checkpoint struct {
	V int `json:"v"`
	projection.Checkpoint
}

// EncodeObject returns the exact bytes under which an object of this package is stored.
func EncodeObject(object any) ([]byte, error) {
	if p, ok := object.(placed); ok {
		object = p.withRefs(brief)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		return nil, fmt.Errorf("encode %T: %w", object, err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// DecodeObject parses a stored object and checks its format version.
func DecodeObject[T any](raw []byte) (T, error) {
	var object T
	err := json.Unmarshal(raw, &object)
	if err != nil || versionOf(object) != ObjectVersion {
		return object, refuse(raw, object, err)
	}
	if p, ok := any(object).(placed); ok {
		object = p.withRefs(full).(T) //nolint:forcetypeassert // a copy of what it is called on
	}
	return object, nil
}

// versionOf is the field V, which every object has.
func versionOf(object any) int { return int(reflect.ValueOf(object).FieldByName("V").Int()) }

// refuse says why raw is no object: above all that it has another version, whose fields may have other shapes.
func refuse(raw []byte, object any, err error) error {
	var head struct {
		V int `json:"v"`
	}
	if headErr := json.Unmarshal(raw, &head); headErr != nil {
		return fmt.Errorf("%w: %w", ErrFormat, headErr)
	}
	if head.V != ObjectVersion {
		return fmt.Errorf("%w: version %d of %T, this program reads %d", ErrFormat, head.V, object, ObjectVersion)
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}
