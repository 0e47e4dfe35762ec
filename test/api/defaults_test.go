package api

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/agentloop/agentloop/api/v1alpha1"
)

var updateGolden = flag.Bool("update", false, "rewrite the files in testdata")

// TestDefaults pins what the API server makes of the smallest object of each kind, and of one in which every list has an
// entry with nothing but what is required.
func TestDefaults(t *testing.T) {
	cases := map[string]struct {
		kind, spec string
	}{
		"modelprovider":       {v1alpha1.KindModelProvider, smallestProvider},
		"modelprovider-price": {v1alpha1.KindModelProvider, smallestProvider + "---\n" + model(`price: {inputPerMTok: "3"}`)},
		"agentsession":        {v1alpha1.KindAgentSession, smallestSession},
		"agentsession-lists": {v1alpha1.KindAgentSession, smallestSession + "---\n" + server("allow: ['*']") + `
skills: [{id: s, configMapRef: {name: c}}]
subagents: [{name: a, description: d, model: {providerRef: {name: p}, model: m}}]
compaction: {thresholdPercent: 80}
history: {onDelete: Delete}
`},
		"agentrun":         {v1alpha1.KindAgentRun, smallestRun},
		"toolapproval":     {v1alpha1.KindToolApproval, smallestApproval},
		"agentrun-compact": {v1alpha1.KindAgentRun, smallestRun + "---\n" + compactRun + "limits: {maxTurns: 1}"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := map[string]any{}
			for _, document := range strings.Split(c.spec, "---\n") {
				spec = merge(spec, parse(t, document))
			}
			made, err := create(t, object(c.kind, spec))
			if err != nil {
				t.Fatal(err)
			}
			compareGolden(t, name+".json", made.Object["spec"])
			checkRoundTrip(t, c.kind, made.Object["spec"])
		})
	}
}

func compareGolden(t *testing.T, file string, value any) {
	t.Helper()
	got, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", file)
	if *updateGolden {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: -want +got (refresh with -update)\n%s", path, diff)
	}
}

// checkRoundTrip says that the Go types lose nothing of a spec and add nothing to it.
func checkRoundTrip(t *testing.T, kind string, spec any) {
	t.Helper()
	in := map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "spec": spec}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	typed, err := scheme.New(v1alpha1.GroupVersion.WithKind(kind))
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(in, typed, true); err != nil {
		t.Fatal(err)
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Errorf("through the Go type: -before +after\n%s", diff)
	}
}

// TestFullSpecsSurviveTheGoTypes does the same for specs in which every field is set.
func TestFullSpecsSurviveTheGoTypes(t *testing.T) {
	for kind, spec := range map[string]string{
		v1alpha1.KindModelProvider: fullProvider, v1alpha1.KindAgentSession: fullSession, v1alpha1.KindAgentRun: fullRun,
		v1alpha1.KindToolApproval: smallestApproval + "\nreason: good",
	} {
		t.Run(kind, func(t *testing.T) {
			made, err := create(t, object(kind, merge(map[string]any{}, parse(t, spec))))
			if err != nil {
				t.Fatal(err)
			}
			checkRoundTrip(t, kind, made.Object["spec"])
		})
	}
}
