package monitoring

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

// example is a situation that an alert is for, or is not for: series in the notation of Prometheus's tests, one value a
// minute, when it is looked at, and the descriptions of what then fires.
type example struct {
	Name   string            `json:"name"`
	Series map[string]string `json:"series"`
	At     string            `json:"at"`
	Says   []string          `json:"says"`
}

// TestAlerts tries each alert on situations in which it fires and in which it does not.
func TestAlerts(t *testing.T) {
	raw, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string][]example{}
	if err := yaml.UnmarshalStrict(raw, &examples); err != nil {
		t.Fatal(err)
	}
	for _, group := range groups(t).Groups {
		for _, rule := range group.Rules {
			var fires, rests bool
			for _, e := range examples[rule.Alert] {
				fires, rests = fires || len(e.Says) > 0, rests || len(e.Says) == 0
				t.Run(rule.Alert+"/"+e.Name, func(t *testing.T) { e.try(t, rule.Alert) })
			}
			if !fires || !rests {
				t.Errorf("%s: testdata/alerts.yaml needs an example in which it fires, and one in which it does not", rule.Alert)
			}
			delete(examples, rule.Alert)
		}
	}
	for name := range examples {
		t.Errorf("testdata/alerts.yaml has examples of %s, which is no alert", name)
	}
}

func (e example) try(t *testing.T, alert string) {
	t.Helper()
	at, err := model.ParseDuration(e.At)
	if err != nil {
		t.Fatal(err)
	}
	load := "load 1m\n"
	for name, values := range e.Series {
		load += fmt.Sprintf("  %s %s\n", name, values)
		if err := check(metrics(t), name); err != nil {
			t.Errorf("the example is of another world: %v", err)
		}
	}
	suite, err := promqltest.NewLazyLoader(load, promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := suite.Close(); err != nil {
			t.Error(err)
		}
	}()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()), Appendable: suite.Storage(), Context: context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: slog.New(slog.DiscardHandler), Parser: parser.NewParser(parser.Options{}),
	})
	loaded, errs := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, rulesFile)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var rule *rules.AlertingRule
	var of *rules.Group
	for _, group := range loaded {
		for _, r := range group.Rules() {
			if one, ok := r.(*rules.AlertingRule); ok && one.Name() == alert {
				rule, of = one, group
				rule.SetRestored(true)
			}
		}
	}
	start := time.Unix(0, 0).UTC()
	for ts := start; !ts.After(start.Add(time.Duration(at))); ts = ts.Add(time.Minute) {
		suite.WithSamplesTill(ts, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			of.Eval(suite.Context(), ts)
		})
		if err := rule.LastError(); err != nil {
			t.Fatal(err)
		}
	}
	var said []string
	for _, active := range rule.ActiveAlerts() {
		if active.State == rules.StateFiring {
			said = append(said, active.Annotations.Get("description"))
		}
	}
	slices.Sort(said)
	if !slices.Equal(said, e.Says) {
		t.Errorf("it says\n  %s\nwant\n  %s", strings.Join(said, "\n  "), strings.Join(e.Says, "\n  "))
	}
}
