package natslog_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/logtest"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/test/services"
)

// onThree is a log on three servers.
func onThree(t *testing.T, c *services.Cluster) *natslog.Log {
	t.Helper()
	nc, err := natslog.Connect(natslog.ConnectOptions{URL: c.URL(), Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	log, err := natslog.New(nc, natslog.Options{Replicas: 3, APITimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var last error
	waitFor(t, func() bool { last = log.Ensure(bounded(t)); return last == nil })
	return log
}

func TestClusterConformance(t *testing.T) {
	c := services.ClusterForTest(t)
	logtest.Run(t, func(t *testing.T) runevent.Log { return onThree(t, c) })
}

// Each server in turn is killed and started again under appends.
func TestClusterKillsLoseAndDoubleNothing(t *testing.T) {
	const streams, between = 8, 100
	c := services.ClusterForTest(t)
	log := onThree(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	stop := make(chan struct{})
	var appended, longest atomic.Int64
	var wg sync.WaitGroup
	names, want := make([]runevent.Stream, streams), make([][]string, streams)
	for i := range streams {
		names[i] = logtest.NewStream()
		w := runevent.NewWriter(log, runevent.WriterConfig{Stream: names[i], Now: time.Now})
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				text, begin := fmt.Sprintf("entry %d", n), time.Now()
				if _, _, err := w.Append(ctx, event(text)); err != nil {
					t.Errorf("%s: %v", names[i], err)
					return
				}
				for took := time.Since(begin).Milliseconds(); took > longest.Load(); {
					longest.Store(took)
				}
				want[i] = append(want[i], text)
				appended.Add(1)
			}
		})
	}
	begin := time.Now()
	for _, node := range c.Nodes {
		goal := appended.Load() + between
		waitFor(t, func() bool { return appended.Load() >= goal })
		if err := c.Settle(ctx); err != nil {
			t.Fatal(err)
		}
		if err := node.Kill(); err != nil {
			t.Fatal(err)
		}
		goal = appended.Load() + between
		waitFor(t, func() bool { return appended.Load() >= goal })
		if err := node.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d entries over %d kills in %v, longest append %d ms", appended.Load(), len(c.Nodes), time.Since(begin).Round(time.Second), longest.Load())
	for i := range streams {
		if diff := cmp.Diff(want[i], texts(t, log, names[i])); diff != "" {
			t.Errorf("%s (-appended +stored):\n%s", names[i], diff)
		}
	}
}
