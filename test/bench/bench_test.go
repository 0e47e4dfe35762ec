package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/test/bench/corpus"
	"github.com/agentloop/agentloop/test/loopback"
)

func TestMedian(t *testing.T) {
	cases := map[string]struct {
		samples []float64
		want    float64
	}{
		"one":            {[]float64{3}, 3},
		"odd, unsorted":  {[]float64{9, 1, 5}, 5},
		"even, unsorted": {[]float64{4, 1, 2, 9}, 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := median(tc.samples); got != tc.want {
				t.Errorf("median %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTableTellsWhatIsMissed(t *testing.T) {
	r := Report{Date: "2026-01-02T03:04:05Z", Commit: "abc", Figures: []Figure{
		figure("text", "speed", "MB/s", 400, 1234.5, 600).atLeast(500),
		figure("load", "writes", "", 11.25).atMost(10),
		figure("load", "explains", "s", 0.125),
	}}
	var out bytes.Buffer
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for _, line := range strings.Split(out.String(), "\n")[:4] {
		rows = append(rows, strings.Fields(line))
	}
	want := [][]string{
		{"GROUP", "FIGURE", "MEDIAN", "UNIT", "TARGET", "SAMPLES"},
		{"text", "speed", "600", "MB/s", "≥", "500", "met", "400", "–", "1234"},
		{"load", "writes", "11.2", "≤", "10", "MISSED"},
		{"load", "explains", "0.12", "s"},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"load writes"}, r.missed()); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
}

func TestArguments(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"a group that does not exist": {[]string{"-only=history,speed"}, `no group "speed"`},
		"no samples":                  {[]string{"-count=0"}, "use 1 or more"},
		"an argument":                 {[]string{"history"}, "unknown argument"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(tc.args, io.Discard); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestWritesAreCountedByResource(t *testing.T) {
	got, err := parseWrites([]byte(`# HELP apiserver_request_total Counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="agentloop.dev",resource="agentruns",scope="resource",subresource="status",verb="PATCH",version="v1alpha1"} 96
apiserver_request_total{code="409",component="apiserver",dry_run="",group="agentloop.dev",resource="agentruns",scope="resource",subresource="status",verb="PATCH",version="v1alpha1"} 4
apiserver_request_total{code="201",component="apiserver",dry_run="",group="agentloop.dev",resource="agentruns",scope="resource",subresource="",verb="POST",version="v1alpha1"} 32
apiserver_request_total{code="200",component="apiserver",dry_run="",group="agentloop.dev",resource="agentruns",scope="cluster",subresource="",verb="LIST",version="v1alpha1"} 7
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 8
apiserver_request_total{code="201",component="apiserver",dry_run="",group="events.k8s.io",resource="events",scope="resource",subresource="",verb="POST",version="v1"} 1.2e+01
apiserver_request_duration_seconds_count{resource="agentruns",verb="PATCH"} 5
`))
	if err != nil {
		t.Fatal(err)
	}
	want := writes{"agentruns/status": 100, "agentruns": 32, "events": 12}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if since := got.since(writes{"agentruns": 30, "events": 12}); since.total() != 102 {
		t.Errorf("%d writes since, want 102: %v", since.total(), since)
	}
}

// TestConversationIsProjectedWhole shows that what is measured is a conversation that requests are made of: nothing of
// it is repaired or left out, neither at first nor after two more messages.
func TestConversationIsProjectedWhole(t *testing.T) {
	all := conversation(205, 205*1024)
	p, tokens := new(projection.Projector), new(budget.Cache)
	for n := 201; n <= len(all); n += 2 {
		if err := requestOf(p, tokens, all[:n]); err != nil {
			t.Fatalf("%d messages: %v", n, err)
		}
	}
}

// TestStoredRunIsCheaperThanWholeInputs runs a short run with the real loop: each turn stores little, and what storing
// whole inputs would cost grows with the square of the turns.
func TestStoredRunIsCheaperThanWholeInputs(t *testing.T) {
	got, err := storeRun(t.Context(), storageConfig{turns: 40, context: 40_000})
	if err != nil {
		t.Fatal(err)
	}
	if got.requests != 40 || got.puts < 3*40 || got.puts > 4*40 {
		t.Errorf("%d requests with %d puts, want 40 with three to four each", got.requests, got.puts)
	}
	if got.stored.plain < got.stored.encoded || got.stored.encoded == 0 || got.whole.plain < 4*got.stored.plain {
		t.Errorf("stored %+v, whole inputs %+v", got.stored, got.whole)
	}
	if average := got.whole.plain / 40; average < 30_000 || average > 50_000 {
		t.Errorf("average context %d bytes, want about 40,000", average)
	}
}

func TestReportIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench.json")
	var out bytes.Buffer
	err := run(t.Context(), []string{"-only=storage", "-storage-turns=10", "-storage-context=10000", "-o", path, "-commit=abc", "-check"}, &out, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "missed targets") {
		t.Errorf("error %v; ten turns cannot meet the targets", err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var report Report
	if err := json.Unmarshal(raw, &report); err != nil {
		t.Fatal(err)
	}
	if report.Commit != "abc" || len(report.Figures) == 0 || report.Figures[1].Met == nil {
		t.Errorf("report %s", raw)
	}
	if !strings.Contains(out.String(), "puts for each request") {
		t.Errorf("no table:\n%s", out.String())
	}
}

// TestCalibratedScanIsNeverContradicted: with the closer estimator no allowed request is too long for its window.
func TestCalibratedScanIsNeverContradicted(t *testing.T) {
	texts, err := countedCorpus(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	s := newSimulation(texts, budget.Scan, 32_000, true)
	if wrong, err := s.run(t.Context()); err != nil || wrong != 0 {
		t.Errorf("%d of %d verdicts contradicted, error %v", wrong, verdictRequests, err)
	}
	if s.calibration.Observations != warmUp+verdictRequests {
		t.Errorf("%d observations", s.calibration.Observations)
	}
}

// TestServerContradictsNoCalibratedVerdict: the model server's own counts never contradict a calibrated verdict, in any
// protocol.
func TestServerContradictsNoCalibratedVerdict(t *testing.T) {
	samples, err := corpus.Load(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, estimator := range []budget.Estimator{budget.Heuristic, budget.Scan} {
		setting := counting{samples: samples, estimator: estimator.Name(), window: 32_000, calibrate: true, requests: 30}
		got, err := setting.measure(t.Context())
		if err != nil || got.refused != 0 || got.judged < 90 || got.fullest < 0.6 {
			t.Errorf("%s: %+v, %v", setting, got, err)
		}
	}
}

// TestRefusedRequestIsAContradiction: a server with half the window that the loop believes in refuses, and that is counted.
func TestRefusedRequestIsAContradiction(t *testing.T) {
	engine, err := loopback.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, api := range loopback.APIs {
		model := provider.Model{Provider: "p", API: api, ID: string(api), ContextWindow: 16_000, MaxTokens: 4096, Thinking: provider.ThinkingNone}
		if err := engine.Models.Load(reader(model)); err != nil {
			t.Fatal(err)
		}
		model.ContextWindow *= 2
		judged := &judge{to: engine.Client(api), window: model.ContextWindow}
		engine.Deps.Model = judged
		run := loopback.Run(string(api), string(api), model, strings.Repeat("many different words. ", 4000))
		result, err := engine.Execute(t.Context(), run)
		if err != nil || result.Reason != agent.ReasonRejected || judged.judged != 1 || judged.refused != 1 {
			t.Errorf("%s: %+v, %v, %+v", api, result, err, judged.contradictions)
		}
	}
}
