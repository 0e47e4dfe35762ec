package services

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// clusterSize is how many servers a cluster has: one can be missed.
const clusterSize = 3

// clusterSync is when the servers of a cluster write through to the disk: an entry is acknowledged by two of them, so that it
// takes a loss of power at all to lose one.
const clusterSync = "2m"

// member is what makes a server part of a cluster. Addresses are host:port.
type member struct {
	name, route, monitor string
	routes               []string
}

// config is the cluster's part of a server's configuration. Clients are not told the other servers' addresses: they know the
// ways that they were given, which may lead through gates.
func (m *member) config() string {
	var routes []string
	for _, route := range m.routes {
		routes = append(routes, fmt.Sprintf("%q", "nats-route://"+route))
	}
	return fmt.Sprintf("http: %q\ncluster {\n  name: loopback\n  listen: %q\n  no_advertise: true\n  routes: [%s]\n}\n", m.monitor, m.route, strings.Join(routes, ", "))
}

// Cluster is three NATS servers with one JetStream among them.
type Cluster struct{ Nodes []*NATS }

// StartNATSCluster starts three servers, each with a folder of its own in opts.Dir, and waits until JetStream answers at each. SyncInterval
// is two minutes unless it is set.
func StartNATSCluster(ctx context.Context, opts NATSOptions) (*Cluster, error) {
	if opts.SyncInterval == "" {
		opts.SyncInterval = clusterSync
	}
	var last error
	for try := range portTries {
		c, err := startCluster(ctx, opts, fmt.Sprintf("try-%d", try))
		if err == nil {
			return c, nil
		}
		if last = err; !errors.Is(err, errEnded) {
			break
		}
	}
	return nil, last
}

func startCluster(ctx context.Context, opts NATSOptions, dir string) (*Cluster, error) {
	members := make([]member, clusterSize)
	var routes []string
	for i := range members {
		route, err := freeAddress()
		if err != nil {
			return nil, err
		}
		monitor, err := freeAddress()
		if err != nil {
			return nil, err
		}
		members[i] = member{name: fmt.Sprintf("node-%d", i+1), route: route, monitor: monitor}
		routes = append(routes, route)
	}
	c := &Cluster{}
	for i := range members {
		members[i].routes = routes
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		own := opts
		own.Dir, own.member = filepath.Join(opts.Dir, dir, members[i].name), &members[i]
		node, err := newNATS(own, address)
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, node)
	}
	if err := c.Start(ctx); err != nil {
		return nil, errors.Join(err, c.Kill())
	}
	return c, nil
}

// URL has the addresses of all servers, with commas between.
func (c *Cluster) URL() string {
	var urls []string
	for _, node := range c.Nodes {
		urls = append(urls, node.URL)
	}
	return strings.Join(urls, ",")
}

// each does something with all servers at once and returns what went wrong.
func (c *Cluster) each(do func(*NATS) error) error {
	outcomes := make(chan error, len(c.Nodes))
	for _, node := range c.Nodes {
		go func() { outcomes <- do(node) }()
	}
	var errs []error
	for range c.Nodes {
		errs = append(errs, <-outcomes)
	}
	return errors.Join(errs...)
}

// Start starts the servers that do not run. None of them answers before two of them run.
func (c *Cluster) Start(ctx context.Context) error {
	return c.each(func(n *NATS) error { return n.Start(ctx) })
}

// Stop stops all servers.
func (c *Cluster) Stop() error { return c.each((*NATS).Stop) }

// Kill kills all servers.
func (c *Cluster) Kill() error { return c.each((*NATS).Kill) }

// Settle waits until every server has caught up with the others, so that any of them can be missed.
func (c *Cluster) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		err := c.each(func(n *NATS) error { return n.settled(ctx) })
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the servers do not come together: %w", err)
		case <-time.After(pollEvery):
		}
	}
}

// settled asks a server once whether what it has is up to date.
func (n *NATS) settled(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.opts.member.monitor+"/healthz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s", n.name, response.Status)
	}
	return nil
}

// ClusterForTest starts a cluster for one test and ends it with the test.
func ClusterForTest(tb TB) *Cluster {
	tb.Helper()
	c, err := StartNATSCluster(context.Background(), NATSOptions{Programs: Folder(tb), Dir: tb.TempDir()})
	if err != nil {
		tb.Fatalf("start three NATS servers: %v", err)
	}
	tb.Cleanup(func() { _ = c.Kill() }) // the folders go with the test: nothing is left to be saved
	return c
}
