package kube

import (
	"testing"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

// TestAdmits judges tools by their names on their servers, as a run's start does.
func TestAdmits(t *testing.T) {
	owner := &api.AgentSession{Spec: api.AgentSessionSpec{ToolServers: []api.ToolServer{
		{Name: "files", Allow: []string{"read", "list"}}, {Name: "notes", Allow: []string{api.ToolsAll}}, {Name: "mail"},
	}}}
	cases := map[string]struct {
		server, remote string
		want           bool
	}{
		"a tool that is listed":             {"files", "read", true},
		"a tool that is not listed":         {"files", "write", false},
		"any tool of a server with all":     {"notes", "append", true},
		"a server that allows none":         {"mail", "send", false},
		"a server that the session dropped": {"web", "fetch", false},
		"the same name on another server":   {"mail", "read", false},
		"the name that the model sees":      {"files", "files__read", false},
		"a tool that belongs to no server":  {"", "load_skill", true},
	}
	admits := Admits(owner)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := admits(tc.server, tc.remote); got != tc.want {
				t.Errorf("admitted: %v, want %v", got, tc.want)
			}
		})
	}
}
