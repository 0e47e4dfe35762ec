package main

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/agentloop/agentloop/cmd/internal/options"
)

// config is everything that the command line says.
type config struct {
	role       string
	nats       options.NATS
	store      options.Store
	logging    options.Logging
	namespaces options.Namespaces

	workerID          string
	maxConcurrentRuns int
	namespaceCap      int
	ackWait           time.Duration
	heartbeat         time.Duration
	presenceTTL       time.Duration
	drainTimeout      time.Duration
	headsInterval     time.Duration
	modelsInterval    time.Duration
	archiveAbove      int
	archiveInterval   time.Duration

	leaderElect          bool
	leaderElectNamespace string
	metricsAddress       string
	pprofAddress         string
	healthAddress        string
	traceContent         bool
	traceModels          bool
	viewerURL            string
	allowLoopback        bool
	allowPrivate         bool
	allowAddresses       []netip.Prefix
	chaos                string
}

// The roles.
const (
	roleAll         = "all"
	roleControllers = "controllers"
	roleWorkers     = "workers"
)

func parse(args []string) (config, error) {
	var c config
	fs := flag.NewFlagSet("manager", flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), usage, "\nFlags:\n")
		fs.PrintDefaults()
	}
	c.nats.Bind(fs)
	c.nats.BindStreams(fs)
	c.store.Bind(fs)
	c.logging.Bind(fs)
	c.namespaces.Bind(fs)
	fs.StringVar(&c.role, "role", roleAll, "controllers, workers or all; use two Deployments in production")
	fs.StringVar(&c.workerID, "worker-id", hostname(), "name of this worker in run events and status")
	fs.IntVar(&c.maxConcurrentRuns, "max-concurrent-runs", 32, "runs that this worker executes at once")
	fs.IntVar(&c.namespaceCap, "namespace-max-runs", 0, "runs of one namespace that may be queued or running at once, unless the namespace's annotation says otherwise; 0 for no limit")
	fs.DurationVar(&c.ackWait, "ack-wait", 30*time.Second, "how long a silent worker keeps a run before another one may take it")
	fs.DurationVar(&c.heartbeat, "heartbeat", 10*time.Second, "how often a worker says that it is at work; at most a third of --ack-wait")
	fs.DurationVar(&c.presenceTTL, "presence-ttl", 20*time.Second, "how long a worker counts as alive after its last sign")
	fs.DurationVar(&c.drainTimeout, "drain-timeout", 20*time.Second, "how long runs may go on after SIGTERM before they are handed back; keep it below the Pod's grace period")
	fs.DurationVar(&c.headsInterval, "heads-interval", 500*time.Millisecond, "how long a session's run events rest between two reads for status; a run's start and end are read at once, what a live run does meanwhile ten times as seldom")
	fs.DurationVar(&c.modelsInterval, "model-check-interval", time.Hour, "how often providers are asked whether they know the declared models with these limits, at least 1m; 0 asks never")
	fs.IntVar(&c.archiveAbove, "archive-above", 70, "fill of the run-event stream, in percent of --nats-max-bytes, from which on events of ended runs are moved into the object store, least recently used sessions first; 0 never")
	fs.DurationVar(&c.archiveInterval, "archive-interval", time.Minute, "how often the fill of the run-event stream is looked at for --archive-above")
	fs.BoolVar(&c.leaderElect, "leader-elect", true, "elect a leader among the controllers")
	fs.StringVar(&c.leaderElectNamespace, "leader-elect-namespace", "", "namespace of the leader's Lease; the Pod's own when empty")
	fs.StringVar(&c.pprofAddress, "pprof-address", "", "where Go profiles are served, for example 127.0.0.1:6060; empty serves none. Whoever reaches it sees the process's memory")
	fs.StringVar(&c.metricsAddress, "metrics-address", "0", "where /metrics is served, for example :8443; 0 serves none")
	fs.StringVar(&c.healthAddress, "health-address", "0", "where /healthz and /readyz are served, for example :8081; 0 serves none")
	fs.BoolVar(&c.traceContent, "trace-content", false, "put prompts, answers, tool arguments and results into spans, without credentials; whoever reads traces reads them then. Traces are sent where OTEL_EXPORTER_OTLP_ENDPOINT says")
	fs.BoolVar(&c.traceModels, "trace-model-requests", false, "tell providers the trace that a request is part of, in its header traceparent; tool servers are always told")
	fs.StringVar(&c.viewerURL, "viewer-url", "", "where people reach the viewer, for status.trajectoryURL")
	fs.BoolVar(&c.allowLoopback, "allow-loopback", false, "let providers and tool servers be on this machine's loopback; for try-outs")
	fs.BoolVar(&c.allowPrivate, "allow-private", true, "let providers and tool servers be on private addresses, as services in the cluster are")
	fs.Func("allow-addresses", "`addresses` and ranges that providers and tool servers may be on although they would be refused, for example 169.254.25.10,fd00:ec2::/64; "+
		"whoever may create sessions can then send requests there. May be given several times", func(list string) error {
		found, err := prefixes(list)
		c.allowAddresses = append(c.allowAddresses, found...)
		return err
	})
	fs.StringVar(&c.chaos, "chaos", "", "for tests: POINT[=N] ends the process without clean-up when that point is reached the Nth time; list logs each point")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unknown argument %q; see manager --help", fs.Arg(0))
	}
	return c, c.check()
}

func (c config) check() error {
	switch {
	case c.role != roleAll && c.role != roleControllers && c.role != roleWorkers:
		return fmt.Errorf("--role=%s: use controllers, workers or all", c.role)
	case c.maxConcurrentRuns < 1:
		return fmt.Errorf("--max-concurrent-runs=%d: use 1 or more", c.maxConcurrentRuns)
	case c.heartbeat <= 0 || c.heartbeat > c.ackWait/3:
		return fmt.Errorf("--heartbeat=%s: use at most a third of --ack-wait (%s)", c.heartbeat, c.ackWait)
	case c.modelsInterval != 0 && c.modelsInterval < time.Minute:
		return fmt.Errorf("--model-check-interval=%s: use 1m or more, or 0 to ask never", c.modelsInterval)
	case c.archiveAbove < 0 || c.archiveAbove > 100 || c.archiveInterval <= 0:
		return fmt.Errorf("--archive-above=%d --archive-interval=%s: use 0 to 100 and a positive interval", c.archiveAbove, c.archiveInterval)
	case c.workerID == "":
		return fmt.Errorf("--worker-id is empty: give this worker a name")
	}
	return nil
}

// prefixes reads a list of addresses and address ranges, separated by commas.
func prefixes(list string) ([]netip.Prefix, error) {
	var found []netip.Prefix
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if addr, err := netip.ParseAddr(entry); err == nil && addr.Zone() == "" {
			addr = addr.Unmap()
			found = append(found, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(entry)
		if err != nil || prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("%q is neither an IP address nor a range like 10.0.0.0/8", entry)
		}
		if prefix != prefix.Masked() {
			return nil, fmt.Errorf("%s has bits beyond its length: use %s for the range, or %s for the address", entry, prefix.Masked(), prefix.Addr())
		}
		found = append(found, prefix)
	}
	return found, nil
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
