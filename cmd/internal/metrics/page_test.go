package metrics

import (
	"flag"
	"testing"

	"github.com/agentloop/agentloop/test/metricdocs"
)

var update = flag.Bool("update", false, "rewrite the table of docs/operations/metrics.md")

// TestPageOfMetrics holds the documentation to what is registered.
func TestPageOfMetrics(t *testing.T) {
	table, err := metricdocs.Table(New().collectors...)
	if err != nil {
		t.Fatal(err)
	}
	metricdocs.Check(t, "../../../docs/operations/metrics.md", "manager", table, *update)
}
