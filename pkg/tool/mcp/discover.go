package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
)

const (
	// maxPages bounds a listing: a server whose cursors never end must not hold up a run.
	maxPages = 64
	// maxRemoteName and maxDescription bound what one tool brings into the context, in bytes.
	maxRemoteName  = 256
	maxDescription = 8 << 10
)

// listed is one tool as its server describes it.
type listed struct {
	tool   *sdk.Tool
	schema json.RawMessage
}

// list asks the server for all its tools.
func (s *server) list(ctx context.Context) ([]listed, []ServerProblem, error) {
	session, err := s.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	var tools []listed
	seen := map[string]bool{}
	params := &sdk.ListToolsParams{}
	left := s.cfg.maxResponse(s.opts) // for all pages together
	for page := 0; ; page++ {
		ex := &exchange{limit: left}
		result, err := session.ListTools(watch(ctx, ex), params)
		facts := ex.end()
		if err != nil {
			s.lose(session)
			return nil, nil, &connectError{err: err, seen: facts, timedOut: ctx.Err() != nil}
		}
		schemas := rawSchemas(facts.result())
		for _, t := range result.Tools {
			tools = append(tools, listed{tool: t, schema: schemaOf(t, schemas)})
		}
		if result.NextCursor == "" {
			return tools, nil, nil
		}
		left -= facts.read
		if seen[result.NextCursor] || page+1 >= maxPages || left <= 0 {
			return tools, []ServerProblem{s.skipped("", "its list of tools does not end: only the first pages are used")}, nil
		}
		seen[result.NextCursor] = true
		params = &sdk.ListToolsParams{Cursor: result.NextCursor}
	}
}

// rawSchemas returns the schemas of a page as they were sent: key order and numbers matter to models and validators.
func rawSchemas(page json.RawMessage) map[string]json.RawMessage {
	var wire struct {
		Tools []struct {
			Name        string          `json:"name"`
			InputSchema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
	}
	if len(page) == 0 || json.Unmarshal(page, &wire) != nil {
		return nil
	}
	schemas := map[string]json.RawMessage{}
	for _, t := range wire.Tools {
		if _, twice := schemas[t.Name]; !twice {
			schemas[t.Name] = t.InputSchema
		}
	}
	return schemas
}

func schemaOf(t *sdk.Tool, raw map[string]json.RawMessage) json.RawMessage {
	if schema, ok := raw[t.Name]; ok {
		return schema
	}
	schema, err := json.Marshal(t.InputSchema)
	if err != nil {
		return nil
	}
	return schema
}

// admit turns what the server lists into definitions, sorted by name, and says what it left out.
func (s *server) admit(tools []listed) ([]tool.Definition, []ServerProblem) {
	var admitted []tool.Definition
	var problems []ServerProblem
	names := map[string]bool{} // every name that the server has → allowed
	for _, l := range tools {
		name := l.tool.Name
		if !matches(s.cfg.Allow, name) {
			names[name] = false
			continue
		}
		if names[name] {
			problems = append(problems, s.skipped(name, "the server lists it twice: the first is used"))
			continue
		}
		names[name] = true
		definition, err := s.define(l)
		if err != nil {
			problems = append(problems, s.skipped(name, err.Error()))
			continue
		}
		admitted = append(admitted, definition)
	}
	slices.SortFunc(admitted, func(a, b tool.Definition) int { return strings.Compare(a.Name, b.Name) })
	if extra := len(admitted) - s.opts.MaxTools; extra > 0 {
		problems = append(problems, s.skipped("", fmt.Sprintf("%d tools are above the limit of %d: list the needed ones in allow", extra, s.opts.MaxTools)))
		admitted = admitted[:s.opts.MaxTools]
	}
	return admitted, append(problems, s.notFound(names)...)
}

func (s *server) define(l listed) (tool.Definition, error) {
	name := l.tool.Name
	if name == "" || len(name) > maxRemoteName {
		return tool.Definition{}, fmt.Errorf("its name is empty or longer than %d bytes", maxRemoteName)
	}
	parameters, note, err := declare(l.schema)
	if err != nil {
		return tool.Definition{}, err
	}
	definition := tool.Definition{
		Tool: message.Tool{
			Name:        ToolName(s.cfg.Name, name),
			Description: s.redact.short(visible(l.tool.Description), maxDescription) + note,
			Parameters:  parameters,
		},
		Server:           s.cfg.Name,
		RemoteName:       name,
		RetrySafe:        matches(s.cfg.RetrySafe, name),
		RequiresApproval: matches(s.cfg.RequireApproval, name),
	}
	if definition.RequiresApproval {
		definition.ApprovalSeconds = s.cfg.ApprovalSeconds
	}
	if a := l.tool.Annotations; a != nil {
		definition.ReadOnly, definition.Idempotent = a.ReadOnlyHint, a.IdempotentHint
	}
	return definition, nil
}

// matches says whether a list of the configuration has the tool.
func matches(list []string, name string) bool {
	return slices.Contains(list, name) || slices.Contains(list, All)
}

// notFound reports names of the configuration that stand for nothing. A misspelt name in requireApproval would leave a
// tool unguarded, so that silence is no option.
func (s *server) notFound(names map[string]bool) []ServerProblem {
	var problems []ServerProblem
	lists := []struct {
		field string
		names []string
	}{{"allow", s.cfg.Allow}, {"requireApproval", s.cfg.RequireApproval}, {"retrySafe", s.cfg.RetrySafe}}
	for _, list := range lists {
		for _, name := range list.names {
			used, exists := names[name]
			if name == All || used {
				continue
			}
			text := fmt.Sprintf("%s names it, but the server has no such tool", list.field)
			if exists {
				text = fmt.Sprintf("%s names it, but allow does not", list.field)
			}
			problems = append(problems, ServerProblem{Server: s.cfg.Name, Reason: ReasonToolNotFound, Tool: s.redact.short(name, maxRemoteName), Message: text})
		}
	}
	return problems
}

func (s *server) skipped(name, text string) ServerProblem {
	return ServerProblem{
		Server: s.cfg.Name, Reason: ReasonToolSkipped, Tool: s.redact.short(name, maxRemoteName), Message: s.redact.short(text, maxProblemText),
	}
}

// discover connects and lists, within the connect timeout.
func (s *server) discover(ctx context.Context) ([]tool.Definition, []ServerProblem, error) {
	bounded, cancel := context.WithTimeout(ctx, s.opts.ConnectTimeout)
	defer cancel()
	tools, problems, err := s.list(bounded)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		return nil, nil, err
	}
	definitions, more := s.admit(tools)
	return definitions, append(problems, more...), nil
}
