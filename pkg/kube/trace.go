package kube

import (
	"encoding/hex"
	"regexp"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// traceParent is the form of W3C Trace Context, as far as it concerns the trace's id.
var traceParent = regexp.MustCompile(`^(?:00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}|(?:0[1-9a-f]|[1-9a-e][0-9a-f]|f[0-9a-e])-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-[ -~]*)?)$`)

// TraceID is the OpenTelemetry trace that a run is part of: the one that its annotation names, else its own. It is empty for the
// run of a subagent that names none: that run's is the one of whoever delegated it.
func TraceID(run *api.AgentRun) string {
	if found := traceParent.FindStringSubmatch(run.Annotations[api.AnnotationTraceParent]); found != nil {
		if id := found[1] + found[2]; id != "00000000000000000000000000000000" {
			return id
		}
	}
	if run.Spec.Parent != nil {
		return ""
	}
	id := runevent.TraceID(AgentKey(run), string(run.UID))
	return hex.EncodeToString(id[:])
}
