// Package metricdocs holds the page of metrics to what programs register.
//
// Guarantees: a metric that is registered and not on the page, or the other way round, or that has another type, other
// labels or another meaning there, fails the test that asks.
package metricdocs

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// form is how a description of a metric prints.
var form = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", constLabels: \{.*?\}, variableLabels: \{(.*?)\}\}$`)

// Table describes the metrics of collectors as rows of a table, sorted by name.
func Table(collectors ...prometheus.Collector) (string, error) {
	var rows []string
	for _, c := range collectors {
		descs := make(chan *prometheus.Desc)
		go func() {
			defer close(descs)
			c.Describe(descs)
		}()
		for desc := range descs {
			row, err := rowOf(desc, typeOf(c))
			if err != nil {
				return "", err
			}
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	return "| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n" + strings.Join(rows, ""), nil
}

func rowOf(desc *prometheus.Desc, kind string) (string, error) {
	parts := form.FindStringSubmatch(desc.String())
	if parts == nil {
		return "", fmt.Errorf("%s is not understood", desc)
	}
	name, err := strconv.Unquote(parts[1])
	if err != nil {
		return "", err
	}
	help, err := strconv.Unquote(parts[2])
	if err != nil {
		return "", err
	}
	var labels []string
	for label := range strings.SplitSeq(parts[3], ",") {
		if label != "" {
			labels = append(labels, "`"+label+"`")
		}
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", name, kind, unitOf(name), strings.Join(labels, ", "), strings.TrimSuffix(help, ".")), nil
}

// typeOf is a collector's type; one that makes its metrics when it is asked makes gauges.
func typeOf(c prometheus.Collector) string {
	switch c.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.GaugeVec:
		return "gauge"
	case *prometheus.HistogramVec:
		return "histogram"
	}
	one, ok := c.(prometheus.Metric)
	if !ok {
		return "gauge"
	}
	var written dto.Metric
	if one.Write(&written) != nil {
		return "unknown"
	}
	switch {
	case written.Counter != nil:
		return "counter"
	case written.Histogram != nil:
		return "histogram"
	}
	return "gauge"
}

// unitOf goes by the name, which ends with the unit.
func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_total")
	for _, unit := range []string{"seconds", "bytes", "tokens", "ratio"} {
		if strings.HasSuffix(name, "_"+unit) {
			return unit
		}
	}
	return "count"
}

// Check compares a table with the part of a page that stands between two marks, or writes it there.
func Check(t *testing.T, page, part, table string, update bool) {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- begin "+part+" -->\n", "<!-- end "+part+" -->\n"
	before, rest, found := strings.Cut(string(raw), begin)
	have, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no marks %q and %q", page, begin, end)
	}
	if have == table {
		return
	}
	if !update {
		t.Errorf("%s is not what is registered: run the test with -update\n--- page\n%s--- registered\n%s", page, have, table)
		return
	}
	if err := os.WriteFile(page, []byte(before+begin+table+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
