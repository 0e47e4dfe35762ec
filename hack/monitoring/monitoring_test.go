// Package monitoring holds the alerts and the dashboard to the metrics that there are, with Prometheus's own code, and tries
// the alerts on made-up series. It is a module of its own: nothing that is shipped links Prometheus.
package monitoring

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// The files that are looked at.
const (
	rulesFile     = "../../config/monitoring/rules.yaml"
	dashboardFile = "../../config/monitoring/dashboard.json"
	metricsPage   = "../../docs/operations/metrics.md"
	runbooksPage  = "../../docs/operations/runbooks.md"
)

// metric is what the page says of one, which tests beside the programs hold to what they register.
type metric struct {
	kind   string
	labels []string
}

var (
	metricRow = regexp.MustCompile("^\\| (`[^|]+`) \\| ([a-z]*) \\| (?:[a-z]+ \\| )?([^|]*)\\|")
	quoted    = regexp.MustCompile("`([^`]+)`")
)

func metrics(t *testing.T) map[string]metric {
	t.Helper()
	page := read(t, metricsPage)
	out := map[string]metric{}
	for line := range strings.Lines(page) {
		row := metricRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		var names []string
		for _, label := range quoted.FindAllStringSubmatch(row[3], -1) {
			names = append(names, label[1])
		}
		for _, name := range quoted.FindAllStringSubmatch(row[1], -1) {
			out[name[1]] = metric{row[2], names}
		}
	}
	if len(out) < 30 {
		t.Fatalf("%d metrics on %s", len(out), metricsPage)
	}
	return out
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// always are labels that Prometheus adds to all that it scrapes.
var always = []string{"job", "instance", "namespace", "pod", "service", "container"}

// check parses an expression and compares the metrics and labels that it uses with those that there are.
func check(known map[string]metric, expression string) error {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return err
	}
	labelled := map[string]bool{}
	var found error
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		name, allowed := selector.Name, always
		m, ok := known[name]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(name, suffix); cut && !ok {
				if m, ok = known[base]; ok && m.kind != "histogram" {
					found = fmt.Errorf("%s is no histogram", base)
				}
				if suffix == "_bucket" {
					allowed = append(slices.Clone(allowed), "le")
				}
			}
		}
		if !ok {
			found = fmt.Errorf("there is no metric %s", name)
			return nil
		}
		allowed = append(slices.Clone(allowed), m.labels...)
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name != labels.MetricName && !slices.Contains(allowed, matcher.Name) {
				found = fmt.Errorf("%s has no label %s", name, matcher.Name)
			}
		}
		for _, label := range allowed {
			labelled[label] = true
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if by, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range by.Grouping {
				if !labelled[label] {
					found = fmt.Errorf("nothing has the label %s of %s", label, by)
				}
			}
		}
		return nil
	})
	return found
}

func groups(t *testing.T) *rulefmt.RuleGroups {
	t.Helper()
	all, errs := rulefmt.ParseFile(rulesFile, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// TestCheckFindsWhatIsWrong holds the checks below to what they are for.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	known := map[string]metric{"a_total": {"counter", []string{"x"}}, "h_seconds": {"histogram", nil}}
	for expression, want := range map[string]string{
		`sum by (x) (rate(a_total{x="1",pod="p"}[5m]))`:                     "",
		`histogram_quantile(0.9, sum by (le) (rate(h_seconds_bucket[5m])))`: "",
		`rate(b_total[5m])`:                 "there is no metric b_total",
		`a_total{y="1"}`:                    "a_total has no label y",
		`sum by (y) (a_total)`:              "nothing has the label y of sum by (y) (a_total)",
		`rate(a_total_bucket[5m])`:          "a_total is no histogram",
		`rate(h_seconds_bucket{x="1"}[5m])`: "h_seconds_bucket has no label x",
	} {
		got := ""
		if err := check(known, expression); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}

// TestRules wants every alert to use metrics that there are, to say how bad it is, and to have a runbook.
func TestRules(t *testing.T) {
	known, runbooks := metrics(t), read(t, runbooksPage)
	names := map[string]bool{}
	for _, group := range groups(t).Groups {
		for _, rule := range group.Rules {
			if err := check(known, rule.Expr); err != nil {
				t.Errorf("%s: %v", rule.Alert, err)
			}
			if names[rule.Alert] || !strings.HasPrefix(rule.Alert, "Agentloop") {
				t.Errorf("alert %q: each has a name of its own that begins with Agentloop", rule.Alert)
			}
			names[rule.Alert] = true
			if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
				t.Errorf("%s: severity %q", rule.Alert, rule.Labels["severity"])
			}
			anchor := "docs/operations/runbooks.md#" + strings.ToLower(rule.Alert)
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || rule.Annotations["runbook"] != anchor {
				t.Errorf("%s: annotations %v, want a summary, a description and the runbook %s", rule.Alert, rule.Annotations, anchor)
			}
			section, found := strings.CutPrefix(runbooks[max(0, strings.Index(runbooks, "\n## "+rule.Alert+"\n")):], "\n## "+rule.Alert+"\n")
			section, _, _ = strings.Cut(section, "\n## ")
			if !found || !strings.Contains(section, "\nLook: ") || !strings.Contains(section, "\nDo: ") {
				t.Errorf("%s: %s has no section that says how to look and what to do", rule.Alert, runbooksPage)
			}
		}
	}
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(runbooks, -1) {
		if !names[heading[1]] {
			t.Errorf("%s has a section %s, and there is no such alert", runbooksPage, heading[1])
		}
	}
}

type dashboard struct {
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []struct {
			Name, Type, Definition string
		} `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID         int    `json:"id"`
	Type       string `json:"type"`
	Title      string `json:"title"`
	Datasource *source
	GridPos    struct{ H, W, X, Y int } `json:"gridPos"`
	Targets    []struct {
		RefID      string `json:"refId"`
		Expr       string `json:"expr"`
		Datasource *source
	} `json:"targets"`
}

type source struct{ Type, UID string }

// variable is what Grafana replaces in expressions.
var variable = regexp.MustCompile(`\$(__rate_interval|[a-z]+)`)

// TestDashboard wants every panel to have an id of its own, a place on the grid, the chosen data source and expressions about
// metrics that there are.
func TestDashboard(t *testing.T) {
	raw := read(t, dashboardFile)
	var d dashboard
	if err := yaml.UnmarshalStrict([]byte(raw), &map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(raw), &d); err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`https?://|localhost|\d+\.\d+\.\d+\.\d+`).FindString(raw); found != "" {
		t.Errorf("the dashboard names a host: %s", found)
	}
	variables := map[string]string{"__rate_interval": "5m"}
	for _, v := range d.Templating.List {
		variables[v.Name] = ".*"
	}
	if d.UID == "" || d.Title == "" || variables["datasource"] == "" {
		t.Errorf("uid %q, title %q, variables %v", d.UID, d.Title, slices.Collect(maps.Keys(variables)))
	}
	known, ids, used := metrics(t), map[int]bool{}, 0
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] || p.Title == "" || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q at %+v", p.ID, p.Title, p.GridPos)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Datasource == nil || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q: %d targets from %+v", p.Title, len(p.Targets), p.Datasource)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] || target.Datasource == nil || target.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q: target %s from %+v", p.Title, target.RefID, target.Datasource)
			}
			refs[target.RefID] = true
			expression := variable.ReplaceAllStringFunc(target.Expr, func(name string) string {
				value, ok := variables[name[1:]]
				if !ok {
					t.Errorf("panel %q uses %s, which is no variable", p.Title, name)
				}
				return value
			})
			if err := check(known, expression); err != nil {
				t.Errorf("panel %q: %v", p.Title, err)
			}
			used++
		}
	}
	if used < 40 {
		t.Errorf("%d expressions", used)
	}
}
