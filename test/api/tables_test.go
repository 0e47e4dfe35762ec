package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/agentloop/agentloop/api/v1alpha1"
)

const conditionsOfProvider = `
observedGeneration: 1
conditions:
- {type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
- {type: ModelsVerified, status: "False", reason: LimitsDiffer, message: "m", lastTransitionTime: "2026-01-01T00:00:00Z"}
`

const statusOfSession = `
title: Release notes
activeRun: {name: run-1, uid: 7b2f3a52-4c1d-4f0e-9a57-0f6f2c1b8a11}
queuedRuns: 2
historyMessageCount: 14
usage: {input: 1200, output: 340}
lastActivityTime: "2026-01-01T00:00:00Z"
contextBudget: ` + budget + `
conditions:
- {type: Ready, status: "False", reason: Suspended, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
`

const statusOfRun = `
startTime: "2026-01-01T00:00:00Z"
completionTime: "2026-01-01T00:01:00Z"
turn: 3
toolCalls: 4
lastSequence: 29
worker: {identity: worker-0, attempt: 1}
usage: {input: 900, output: 120}
resultPreview: The release notes
contextBudget: ` + budget + `
conditions:
- {type: Succeeded, status: "True", reason: Completed, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
`

const budget = `{provider: p, model: m, contextWindow: 32000, systemTokens: 20, messageTokens: 26304, toolTokens: 0,
  estimatedInputTokens: 26324, reservedOutputTokens: 4096, safetyTokens: 1600, inputLimit: 26304, remainingInputTokens: -20,
  fits: false, usedPercent: 82, dispatched: false}`

// TestTables says what kubectl get prints: the columns and, for an object with a status, the cells.
func TestTables(t *testing.T) {
	cases := map[string]struct {
		kind, spec, status string
		columns, wide      string
		cells              map[string]any
	}{
		"providers": {
			kind: v1alpha1.KindModelProvider, spec: fullProvider, status: conditionsOfProvider,
			columns: "NAME PROTOCOL READY AGE", wide: "REASON URL VERIFIED",
			cells: map[string]any{
				"PROTOCOL": "Anthropic", "READY": "True", "REASON": "Ready", "URL": "https://models.example.com:8443/anthropic",
				"VERIFIED": "LimitsDiffer",
			},
		},
		"sessions": {
			kind: v1alpha1.KindAgentSession, spec: smallestSession, status: statusOfSession,
			columns: "NAME MODEL READY ACTIVE QUEUED CTX% AGE", wide: "MESSAGES IN OUT REASON TITLE LAST",
			cells: map[string]any{
				"MODEL": "m", "READY": "False", "ACTIVE": "run-1", "QUEUED": 2.0, "CTX%": 82.0, "MESSAGES": 14.0, "IN": 1200.0,
				"OUT": 340.0, "REASON": "Suspended", "TITLE": "Release notes",
			},
		},
		"runs": {
			kind: v1alpha1.KindAgentRun, spec: smallestRun, status: statusOfRun,
			columns: "NAME SESSION STATUS TURN CTX% IN OUT AGE", wide: "TOOLS WORKER ATTEMPT SEQ STARTED FINISHED PREVIEW",
			cells: map[string]any{
				"SESSION": "s", "STATUS": "Completed", "TURN": 3.0, "CTX%": 82.0, "IN": 900.0, "OUT": 120.0, "TOOLS": 4.0,
				"WORKER": "worker-0", "ATTEMPT": 1.0, "SEQ": 29.0, "PREVIEW": "The release notes",
			},
		},
		"decisions": {
			kind: v1alpha1.KindToolApproval, spec: smallestApproval, status: conditionsOfApproval,
			columns: "NAME RUN CALL DECISION BY APPLIED AGE",
			cells:   map[string]any{"RUN": "r", "CALL": "c1", "DECISION": "Approve", "BY": caller, "APPLIED": "Stale"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			made, err := create(t, object(c.kind, parse(t, c.spec)))
			if err != nil {
				t.Fatal(err)
			}
			setStatus(t, made, c.status)
			table := getTable(t, made)
			var columns, wide []string
			cells := map[string]any{}
			for i, column := range table.ColumnDefinitions {
				title := strings.ToUpper(column.Name)
				if column.Priority == 0 {
					columns = append(columns, title)
				} else {
					wide = append(wide, title)
				}
				if _, wanted := c.cells[title]; wanted {
					cells[title] = table.Rows[0].Cells[i]
				}
			}
			if diff := cmp.Diff([]string{c.columns, c.wide}, []string{strings.Join(columns, " "), strings.Join(wide, " ")}); diff != "" {
				t.Errorf("columns: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.cells, cells); diff != "" {
				t.Errorf("cells: -want +got\n%s", diff)
			}
		})
	}
}

func setStatus(t *testing.T, made *unstructured.Unstructured, status string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": parse(t, status)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = resource(made.GetKind()).Patch(t.Context(), made.GetName(), types.MergePatchType, patch,
		metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}, "status")
	if err != nil {
		t.Fatalf("the status was refused: %v", err)
	}
}

func getTable(t *testing.T, made *unstructured.Unstructured) metav1.Table {
	t.Helper()
	config := rest.CopyConfig(world.config)
	config.GroupVersion = &v1alpha1.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = codecs
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	data, err := client.Get().Namespace(namespace).Resource(resources[made.GetKind()].Resource).Name(made.GetName()).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(context.Background()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 {
		t.Fatalf("%d rows, want 1", len(table.Rows))
	}
	return table
}

// TestStatusIsASubresource says that whoever may change a spec cannot change the status with it.
func TestStatusIsASubresource(t *testing.T) {
	u := object(v1alpha1.KindAgentRun, parse(t, smallestRun))
	u.Object["status"] = parse(t, statusOfRun)
	made, err := create(t, u)
	if err != nil {
		t.Fatal(err)
	}
	if status, found := made.Object["status"]; found {
		t.Errorf("a status came in with the object: %v", status)
	}
}

func TestSelectableFields(t *testing.T) {
	made, err := create(t, object(v1alpha1.KindAgentRun, parse(t, "sessionRef: {name: chosen.one}\ninput: {text: hi}")))
	if err != nil {
		t.Fatal(err)
	}
	for selector, want := range map[string]int{
		"spec.sessionRef.name=chosen.one":                      1,
		"spec.sessionRef.name=chosen.one,spec.agent=main":      1,
		"spec.sessionRef.name=chosen.one,spec.agent=another":   0,
		"spec.sessionRef.name=chosen,metadata.name!=something": 0,
	} {
		list, err := resource(made.GetKind()).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			t.Errorf("%s: %v", selector, err)
			continue
		}
		if len(list.Items) != want {
			t.Errorf("%s selects %d runs, want %d", selector, len(list.Items), want)
		}
	}
}
