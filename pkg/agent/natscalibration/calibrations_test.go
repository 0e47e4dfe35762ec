package natscalibration_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/agent/natscalibration"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/test/services"
)

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func counted(n int64) *message.Usage { return &message.Usage{Input: &n, Output: &n} }

// TestCalibrations learns for several workers at once, each model by itself, and keeps what it learnt. Three servers answer
// a writer that was too late otherwise than one does.
func TestCalibrations(t *testing.T) {
	t.Run("one server", func(t *testing.T) { learns(t, services.NATSForTest(t).URL, 1) })
	t.Run("three servers", func(t *testing.T) { learns(t, services.ClusterForTest(t).URL(), 3) })
}

func learns(t *testing.T, url string, replicas int) {
	open := func() *natscalibration.Calibrations {
		t.Helper()
		c, err := natscalibration.New(connect(t, url), natscalibration.Options{Replicas: replicas})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	one, other := open(), open()
	key := agent.ModelKey{Namespace: "team.a", Provider: "models", Model: "org/model:7b with spaces"}
	measured := budget.ContextBudget{EstimatedInputTokens: 1000}
	if got, err := one.Get(bounded(t), key); err != nil || got != (budget.Calibration{}) {
		t.Errorf("at first: %+v, %v", got, err)
	}
	const each = 6
	var group errgroup.Group
	for _, c := range []*natscalibration.Calibrations{one, other} {
		group.Go(func() error {
			for range each {
				if _, err := c.Learn(bounded(t), key, measured, counted(1500)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	got, err := open().Get(bounded(t), key)
	if err != nil || got.Observations != 2*each || got.Ratio != 1.5 {
		t.Errorf("after %d observations: %+v, %v", 2*each, got, err)
	}
	if got, err := one.Learn(bounded(t), key, measured, &message.Usage{}); err != nil || got.Observations != 2*each {
		t.Errorf("a response without counts: %+v, %v", got, err)
	}
	key.Namespace = "team-b"
	if got, err := one.Get(bounded(t), key); err != nil || got.Observations != 0 {
		t.Errorf("the same names in another namespace: %+v, %v", got, err)
	}
}
