//go:build cluster

package natslog_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/logtest"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/test/services"
)

// The tests of this file need three servers and more than the two cores that all others make do with:
//
//	AGENTLOOP_SERVICES=$(hack/services/setup.sh) go test -vet=off -tags cluster -run Cluster ./pkg/runevent/natslog

// cluster is three servers with one JetStream among them.
type cluster struct {
	urls    []string
	configs []string
	servers []*exec.Cmd
	binary  string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{binary: filepath.Join(services.Folder(t), "nats-server"), servers: make([]*exec.Cmd, 3)}
	ports := freePorts(t, 6)
	var routes []string
	for i := range 3 {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[3+i]))
	}
	for i := range 3 {
		dir := t.TempDir()
		config := fmt.Sprintf("listen: 127.0.0.1:%d\nserver_name: n%d\njetstream { store_dir: %q }\n"+
			"cluster { name: c, listen: 127.0.0.1:%d, routes: [%s] }\n", ports[i], i, dir, ports[3+i], strings.Join(routes, ", "))
		path := filepath.Join(dir, "nats.conf")
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		c.urls = append(c.urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
		c.configs = append(c.configs, path)
		c.start(t, i)
	}
	t.Cleanup(func() {
		for i := range c.servers {
			c.kill(t, i)
		}
	})
	return c
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func (c *cluster) start(t *testing.T, i int) {
	t.Helper()
	c.servers[i] = exec.Command(c.binary, "-c", c.configs[i])
	if err := c.servers[i].Start(); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) kill(t *testing.T, i int) {
	t.Helper()
	if err := c.servers[i].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.servers[i].Wait() // killed, as it was told
}

// current says whether all replicas of the log have caught up, so that one of them can be missed.
func current(t *testing.T, nc *nats.Conn) bool {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, natslog.DefaultStream)
	if err != nil {
		return false
	}
	group := stream.CachedInfo().Cluster
	behind := func(p *jetstream.PeerInfo) bool { return p.Offline || !p.Current }
	return group != nil && group.Leader != "" && len(group.Replicas) == 2 && !slices.ContainsFunc(group.Replicas, behind)
}

func (c *cluster) log(t *testing.T) (*natslog.Log, *nats.Conn) {
	t.Helper()
	nc, err := natslog.Connect(natslog.ConnectOptions{URL: strings.Join(c.urls, ","), Name: t.Name()})
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
	return log, nc
}

func TestClusterConformance(t *testing.T) {
	c := newCluster(t)
	logtest.Run(t, func(t *testing.T) runevent.Log { log, _ := c.log(t); return log })
}

// Each server in turn is killed and started again under appends.
func TestClusterKillsLoseAndDoubleNothing(t *testing.T) {
	const streams, rounds, between = 8, 2, 400
	c := newCluster(t)
	log, nc := c.log(t)
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
	for round := range 3 * rounds {
		goal := appended.Load() + between
		waitFor(t, func() bool { return appended.Load() >= goal && current(t, nc) })
		c.kill(t, round%3)
		goal = appended.Load() + between
		waitFor(t, func() bool { return appended.Load() >= goal })
		c.start(t, round%3)
	}
	close(stop)
	wg.Wait()
	t.Logf("%d entries over %d kills in %v, longest append %d ms", appended.Load(), 3*rounds, time.Since(begin).Round(time.Second), longest.Load())
	for i := range streams {
		if diff := cmp.Diff(want[i], texts(t, log, names[i])); diff != "" {
			t.Errorf("%s (-appended +stored):\n%s", names[i], diff)
		}
	}
}
