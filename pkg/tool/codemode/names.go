package codemode

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
)

// ToolName is the name of the tool that runs code.
const ToolName = "codemode"

// callable is one tool as code sees it: tools.SERVER.TOOL, named "SERVER.TOOL" in searches.
type callable struct {
	server, tool string
	definition   tool.Definition
	// refusal is why code may not call it, "" if it may.
	refusal string
}

func (c callable) name() string { return c.server + "." + c.tool }

// identifier makes a name of a tool server one that can stand behind a dot in JavaScript.
func identifier(name string) string {
	var out strings.Builder
	for i, r := range name {
		digit := r >= '0' && r <= '9'
		if digit && i == 0 {
			out.WriteByte('_')
		}
		if digit || r == '_' || r == '$' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			out.WriteRune(r)
		} else {
			out.WriteByte('_')
		}
	}
	if out.Len() == 0 {
		return "_"
	}
	return out.String()
}

// callables gives every tool a name of its own. The names depend on nothing but the tools, whatever their order.
func callables(nested, approval []tool.Definition) []callable {
	var all []callable
	for _, d := range nested {
		all = append(all, callable{definition: d})
	}
	for _, d := range approval {
		all = append(all, callable{definition: d, refusal: fmt.Sprintf("This tool needs a person's approval and cannot be called from code. Call the tool %s itself.", d.Name)})
	}
	slices.SortFunc(all, func(a, b callable) int {
		return cmp.Or(cmp.Compare(a.definition.Server, b.definition.Server), cmp.Compare(a.definition.RemoteName, b.definition.RemoteName))
	})
	servers, taken := map[string]string{}, map[string]bool{}
	for i := range all {
		c := &all[i]
		server, known := servers[c.definition.Server]
		if !known {
			server = free(identifier(c.definition.Server), taken)
			servers[c.definition.Server] = server
		}
		c.server = server
		c.tool = strings.TrimPrefix(free(server+"."+identifier(c.definition.RemoteName), taken), server+".")
	}
	return all
}

// free is the name, or the first variant of it that is not taken, and takes it.
func free(name string, taken map[string]bool) string {
	out := name
	for n := 2; taken[out]; n++ {
		out = fmt.Sprintf("%s_%d", name, n)
	}
	taken[out] = true
	return out
}

// maxListed bounds the names that the declared tool lists, in bytes.
const maxListed = 1 << 10

// declaration is the tool that stands for the nested ones.
func declaration(all []callable) message.Tool {
	counts := map[string]int{}
	var servers, names []string
	size := 0
	for _, c := range all {
		if c.refusal != "" {
			continue
		}
		if counts[c.server]++; counts[c.server] == 1 {
			servers = append(servers, c.server)
		}
		size += len(c.name()) + 2
		names = append(names, c.name())
	}
	listed := "The functions are: " + strings.Join(names, ", ") + "."
	if size > maxListed {
		for i, server := range servers {
			servers[i] = fmt.Sprintf("tools.%s (%d functions)", server, counts[server])
		}
		listed = message.Beginning("There are "+strings.Join(servers, ", "), maxListed) + "; find functions with searchTools."
	}
	return message.Tool{
		Name: ToolName,
		Description: "Runs JavaScript that calls tools, several of them at once or one with what another gave. The code is the body of an async function: " +
			"use await, and return the result, which must be JSON. Tools are async functions that take one object: await tools.SERVER.TOOL({...}). They give the tool's " +
			"structured result, or its text, and throw when it fails. await searchTools(\"words\") finds functions, await describeTool(\"SERVER.TOOL\") " +
			"gives the description and the JSON Schema of the parameters: return it to read it before the first call. console.log adds to the result. There are no files, " +
			"no network, no timers and no modules, and nothing is kept between executions. " + listed,
		Parameters: []byte(`{"type":"object","properties":{"code":{"type":"string","description":"the body of an async function"}},"required":["code"],"additionalProperties":false}`),
	}
}
