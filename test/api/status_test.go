package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentloop/agentloop/api/v1alpha1"
)

const fullBudget = `{provider: anthropic.eu, model: claude, contextWindow: 32000, systemTokens: 20, messageTokens: 26304, toolTokens: 0,
  estimatedInputTokens: 26324, reservedOutputTokens: 4096, requestOutputTokenLimit: 4000, safetyTokens: 1600, inputLimit: 26304,
  remainingInputTokens: -20, fits: false, usedPercent: 82, dispatched: false, calibratedInputTokens: 27000, calibratedFits: false,
  estimator: Scan}`

const fullSessionStatus = `
observedGeneration: 3
storageUID: 7b2f3a52-4c1d-4f0e-9a57-0f6f2c1b8a11
title: Release <notes> & more
activeRun: {name: run.1, uid: 7b2f3a52-4c1d-4f0e-9a57-0f6f2c1b8a12}
queuedRuns: 2
runsTotal: 17
head: ` + digest + `
lastSequence: 290
historyMessageCount: 14
checkpoint: {id: ` + digest + `, boundary: 6}
contextBudget: ` + fullBudget + `
usage: {input: 0, output: 340, cacheRead: 7, cacheWrite: 8, reasoning: 100}
lastActivityTime: "2026-01-01T00:00:00Z"
trajectoryURL: https://agents.example.com/projects/team/sessions/release-notes/trajectory
conditions:
- {type: Ready, status: "True", reason: Ready, message: "", observedGeneration: 3, lastTransitionTime: "2026-01-01T00:00:00Z"}
`

const fullRunStatus = `
observedGeneration: 1
ordinal: 4
startTime: "2026-01-01T00:00:00Z"
completionTime: "2026-01-01T00:01:00Z"
turn: 3
modelRequests: 4
requestsWithoutUsage: 1
toolCalls: 4
worker: {identity: worker-0, attempt: 1}
lastSequence: 29
head: ` + digest + `
context: ` + digest + `
result: {message: ` + digest + `, state: ` + digest + `}
resultPreview: The release notes
contextBudget: ` + fullBudget + `
inputSources: {historyMessageCount: 9, history: 3, compaction: 1, runtimeContext: 0, toolRepair: 1, skillExpansions: 1}
usage: {input: 0, output: 340, cacheRead: 7, cacheWrite: 8, reasoning: 100}
pendingApprovals:
- {toolCallID: c1, tool: repository__merge, argumentsDigest: ` + digest + `, expiresAt: "2026-01-01T00:00:00Z"}
pendingApprovalsTotal: 5
failure: {class: invalidRequest, httpStatus: 400, retryable: false, detail: ` + digest + `}
traceID: 4bf92f3577b34da6a3ce929d0e0e4736
conditions:
- {type: Finished, status: "True", reason: Completed, message: "", observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}
`

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// TestFullStatus says that the API server stores every field of a status and that the Go types have all of them.
func TestFullStatus(t *testing.T) {
	cases := map[string]struct {
		spec, status string
		typed        any
	}{
		v1alpha1.KindModelProvider: {smallestProvider, conditionsOfProvider, &v1alpha1.ModelProviderStatus{}},
		v1alpha1.KindAgentSession:  {smallestSession, fullSessionStatus, &v1alpha1.AgentSessionStatus{}},
		v1alpha1.KindAgentRun:      {smallestRun, fullRunStatus, &v1alpha1.AgentRunStatus{}},
		v1alpha1.KindToolApproval:  {smallestApproval, conditionsOfApproval, &v1alpha1.ToolApprovalStatus{}},
	}
	crds := loadCRDs(t)
	for kind, c := range cases {
		t.Run(kind, func(t *testing.T) {
			made, err := create(t, object(kind, parse(t, c.spec)))
			if err != nil {
				t.Fatal(err)
			}
			setStatus(t, made, c.status)
			stored, err := resource(kind).Get(t.Context(), made.GetName(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			status, _ := stored.Object["status"].(map[string]any)
			for name := range crds[kind].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties {
				if _, set := status[name]; !set {
					t.Errorf("the case leaves %s out", name)
				}
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(status, c.typed, true); err != nil {
				t.Fatal(err)
			}
			out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.typed)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(status, out); diff != "" {
				t.Errorf("through the Go type: -stored +after\n%s", diff)
			}
		})
	}
}

// TestStatusLimits says that a writer cannot put content into a status.
func TestStatusLimits(t *testing.T) {
	long := strings.Repeat("x", 600)
	cases := map[string]struct {
		kind, spec, status, want string
	}{
		"a preview that is an answer": {v1alpha1.KindAgentRun, smallestRun, "resultPreview: " + long, "may not be more than 256 bytes"},
		"a title that is a text":      {v1alpha1.KindAgentSession, smallestSession, "title: " + long, "may not be more than 128 bytes"},
		"five approvals": {
			v1alpha1.KindAgentRun, smallestRun,
			"pendingApprovals: " + many(5, "{toolCallID: c%d, tool: t, argumentsDigest: d}"), "must have at most 4 items",
		},
		"a field that status does not have": {v1alpha1.KindAgentRun, smallestRun, "answer: hi", `unknown field "status.answer"`},
		"a negative count":                  {v1alpha1.KindAgentRun, smallestRun, "turn: -1", "should be greater than or equal to 0"},
		"a budget without its sum": {
			v1alpha1.KindAgentSession, smallestSession, "contextBudget: {provider: p, model: m}", "contextBudget.estimatedInputTokens: Required value",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, err := create(t, object(c.kind, parse(t, c.spec)))
			if err != nil {
				t.Fatal(err)
			}
			patch, err := json.Marshal(map[string]any{"status": parse(t, c.status)})
			if err != nil {
				t.Fatal(err)
			}
			_, err = resource(c.kind).Patch(t.Context(), made.GetName(), types.MergePatchType, patch,
				metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}, "status")
			checkRefusal(t, err, c.want)
		})
	}
}
