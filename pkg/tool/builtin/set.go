// Package builtin holds the tools that the program itself has: the time, the session's Skills, and the rest of results that
// were cut.
//
// Guarantees: they run no command, open no file and no connection of their own, and read nothing but what the run hands them;
// each is read-only and may be run again after an interruption; each result has at most MaxResult bytes of text; what a
// run declares stays the same to its end.
package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
)

// The names of the tools. No server's tool has one of them: those have "__" in theirs.
const (
	Now        = "now"
	LoadSkill  = "load_skill"
	ReadResult = "read_result"
	Delegate   = "delegate"
)

// MaxResult bounds the text of one result, in bytes.
const MaxResult = 64 << 10

// kind is one built-in tool.
type kind struct {
	name, description, parameters string
	// define, when set, makes the definition instead of the texts above. The engine itself makes runs of its calls.
	define func(agent.Host) tool.Definition
	// wanted says whether a run declares it.
	wanted func(agent.Host) bool
	call   func(*set, context.Context, tool.Call) (tool.Result, error)
}

// kinds are all built-in tools.
var kinds = []kind{
	{
		name: Now, wanted: anyTool, call: (*set).now,
		description: "Returns the current date and time.",
		parameters:  `{"type":"object","properties":{"timeZone":{"type":"string","description":"IANA name such as Europe/Berlin; UTC if absent"}},"additionalProperties":false}`,
	},
	{
		name: LoadSkill, wanted: hasSkills, call: (*set).loadSkill,
		description: "Loads the instructions of a skill, or one of the skill's other files.",
		parameters:  `{"type":"object","properties":{"id":{"type":"string","description":"the skill's id"},"file":{"type":"string","description":"name of a file that the skill lists; its instructions if absent"}},"required":["id"],"additionalProperties":false}`,
	},
	{
		name: ReadResult, wanted: anyTool, call: (*set).readResult,
		description: "Reads on in an earlier tool result that was cut.",
		parameters:  `{"type":"object","properties":{"callId":{"type":"string","description":"as the mark of the cut says"},"offset":{"type":"integer","minimum":0,"description":"first byte to read"},"limit":{"type":"integer","minimum":1,"maximum":60000,"description":"bytes to read; 30000 if absent"}},"required":["callId"],"additionalProperties":false}`,
	},
	{name: Delegate, wanted: hasSubagents, define: delegate, call: (*set).delegated},
}

func hasSkills(h agent.Host) bool { return len(h.Skills) > 0 }

// anyTool holds for a run that has something to call anyway: to a plain conversation, a provider's overhead for tools would
// be the greater part of its input.
func anyTool(h agent.Host) bool { return len(h.Others) > 0 || hasSkills(h) || hasSubagents(h) }

// New returns what makes the set of a run; clock tells the time.
func New(clock func() time.Time) func(agent.Host) tool.Set {
	return func(host agent.Host) tool.Set {
		s := &set{host: host, clock: clock, kinds: map[string]kind{}}
		for _, k := range kinds {
			if definition, ok := s.declared(k); ok {
				s.definitions = append(s.definitions, definition)
				s.kinds[k.name] = k
			}
		}
		return s
	}
}

// set is the built-in tools of one run.
type set struct {
	host        agent.Host
	clock       func() time.Time
	definitions []tool.Definition
	kinds       map[string]kind
}

var _ tool.Set = (*set)(nil)

// declared is how the run declares a tool, or that it does not. A run that was begun with a tool keeps the words that it
// was begun with.
func (s *set) declared(k kind) (tool.Definition, bool) {
	if s.host.Known != nil {
		at := slices.IndexFunc(s.host.Known, func(d tool.Definition) bool { return d.Server == "" && d.Name == k.name })
		if at < 0 {
			return tool.Definition{}, false
		}
		return s.host.Known[at], true
	}
	if !k.wanted(s.host) {
		return tool.Definition{}, false
	}
	if k.define != nil {
		return k.define(s.host), true
	}
	return tool.Definition{
		Tool:     message.Tool{Name: k.name, Description: k.description, Parameters: json.RawMessage(k.parameters)},
		ReadOnly: true, Idempotent: true, RetrySafe: true,
	}, true
}

// Definitions implements tool.Set.
func (s *set) Definitions() []tool.Definition { return slices.Clone(s.definitions) }

// Call implements tool.Set.
func (s *set) Call(ctx context.Context, call tool.Call, _ func(string)) (tool.Result, error) {
	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}
	k, ok := s.kinds[call.Name]
	if !ok {
		return failed("There is no tool named %.64q.", call.Name), nil
	}
	return k.call(s, ctx, call)
}

// Close implements tool.Set.
func (s *set) Close() error { return nil }

// failed is a result that says what the model can do otherwise.
func failed(format string, args ...any) tool.Result {
	return tool.Result{Content: message.Text(fmt.Sprintf(format, args...)), IsError: true}
}

// unread is the result of something that could not be read, unless the run itself has ended.
func unread(ctx context.Context, what string) (tool.Result, error) {
	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}
	return failed("%s could not be read now. Try again later.", what), nil
}

// arguments decodes a call's arguments; the complaint is for the model.
func arguments(call tool.Call, into any) (complaint string) {
	raw := bytes.TrimSpace(call.Arguments)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		raw = []byte("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more than one value")
		}
	}
	if err == nil {
		return ""
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Sprintf("The argument %s cannot be a %.32s. Send the call again with arguments as declared.", wrong.Field, wrong.Value)
	}
	return "The arguments do not fit the tool's schema. Send the call again with arguments as declared."
}
