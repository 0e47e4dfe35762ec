package agent

import (
	"slices"
	"strings"

	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/tool"
)

// permissionsSection is the part of the runtime context that says which calls need a person's approval. Which tools are
// allowed at all is said by their declarations.
const permissionsSection = "tool-permissions"

// context is the runtime context of the run: the host's own, and what its tools may do.
func (l *loop) context() string {
	permissions := projection.RenderSystem([]projection.Section{{Name: permissionsSection, Text: permissions(l.tools.Definitions(), l.snapshots)}})
	switch {
	case permissions == "":
		return l.cfg.Context
	case l.cfg.Context == "":
		return permissions
	}
	return l.cfg.Context + "\n\n" + permissions
}

// permissions names the tools that need approval. Where there are none it is empty, unless an earlier snapshot has told of some:
// the model would go on believing that one.
func permissions(tools []tool.Definition, told []projection.Snapshot) string {
	var names []string
	for _, definition := range tools {
		if definition.RequiresApproval {
			names = append(names, definition.Name)
		}
	}
	if len(names) > 0 {
		return "Calls of these tools need a person's approval: " + strings.Join(names, ", ") + "."
	}
	if slices.ContainsFunc(told, func(s projection.Snapshot) bool { return strings.Contains(s.Content, "<"+permissionsSection+">\n") }) {
		return "No tool needs a person's approval."
	}
	return ""
}
