package server

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentloop/agentloop/test/metricdocs"
)

var updatePage = flag.Bool("update-metrics", false, "rewrite the table of docs/operations/metrics.md")

// TestPageOfMetrics holds the documentation to what is registered, and the names to Prometheus's own linter.
func TestPageOfMetrics(t *testing.T) {
	m := newMetrics(nil)
	table, err := metricdocs.Table(m.all()...)
	if err != nil {
		t.Fatal(err)
	}
	metricdocs.Check(t, "../../../docs/operations/metrics.md", "viewer", table, *updatePage)
	m.requests.WithLabelValues("page", "200").Inc()
	m.duration.WithLabelValues("page").Observe(1)
	m.notices.WithLabelValues("sequenceGap").Inc()
	m.entries.WithLabelValues("ndjson").Inc()
	m.exported.WithLabelValues("ndjson").Inc()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m.all()...)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %+v", err, problems)
	}
}

// TestExportBytes counts what the connection took, pieces that were gathered included.
func TestExportBytes(t *testing.T) {
	answer := httptest.NewRecorder()
	out := &patient{w: answer, control: http.NewResponseController(answer), now: time.Now, each: time.Second}
	for _, size := range []int{3, 10, exportBuffer, 5} {
		if _, err := out.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.flush(); err != nil || out.sent != int64(answer.Body.Len()) || out.sent != 18+exportBuffer {
		t.Errorf("%d bytes are counted, %d were written, %v", out.sent, answer.Body.Len(), err)
	}
}
