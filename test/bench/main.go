// Command bench measures what agentloop costs: estimating and projecting long conversations, storing them, and running
// many at once. It prints a table, writes the same figures as JSON, and compares each with its target.
//
// Guarantees: figures are medians of several measurements made in one run of the program, and all samples are in the
// JSON; what is measured is the production code, through its public functions or through the manager's binary on a real
// API server, NATS and S3; only the model and the tools are scripted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// config is everything that the command line says.
type config struct {
	only    []string
	count   int
	out     string
	commit  string
	check   bool
	load    loadConfig
	storage storageConfig
	storm   stormConfig
	viewer  viewerConfig
}

// group is a set of figures that are measured together.
type group struct {
	name    string
	measure func(ctx context.Context, c config, say func(format string, args ...any)) ([]Figure, error)
}

var groups = []group{
	{"estimate", measureEstimate},
	{"tokens", measureTokens},
	{"verdicts", measureVerdicts},
	{"counted", measureCounted},
	{"history", measureHistory},
	{"storage", measureStorage},
	{"load", measureLoad},
	{"storm", measureStorm},
	{"overhead", measureOverhead},
	{"recovery", measureRecovery},
	{"runtime", measureRuntime},
	{"viewer", measureViewer},
	{"page", measurePage},
	{"codemode", measureCodemode},
}

// groupNames are the names of all groups, for people.
func groupNames() string {
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.name
	}
	return strings.Join(names, ", ")
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (config, error) {
	c := config{}
	var only string
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&only, "only", "", "groups to measure, with commas between; all when empty: "+groupNames())
	fs.IntVar(&c.count, "count", 5, "how many samples a median is taken of; the load is measured at most three times")
	fs.StringVar(&c.out, "o", "bench.json", "file for the figures; empty writes none")
	fs.StringVar(&c.commit, "commit", "", "the commit that is measured, for the report")
	fs.BoolVar(&c.check, "check", false, "end with an error when a target is missed")
	c.storage.bind(fs)
	c.load.bind(fs)
	c.storm.bind(fs)
	c.viewer.bind(fs)
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unknown argument %q", fs.Arg(0))
	}
	if c.count < 1 {
		return c, fmt.Errorf("-count=%d: use 1 or more", c.count)
	}
	for _, name := range strings.FieldsFunc(only, func(r rune) bool { return r == ',' || r == ' ' }) {
		if !slices.ContainsFunc(groups, func(g group) bool { return g.name == name }) {
			return c, fmt.Errorf("-only=%s: there is no group %q; there are %s", only, name, groupNames())
		}
		c.only = append(c.only, name)
	}
	return c, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parse(args, stderr)
	if err != nil {
		return err
	}
	log.SetLogger(logr.Discard())
	report := Report{
		Date: time.Now().UTC().Format(time.RFC3339), Commit: c.commit, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), LoadBefore: loadAverage(),
	}
	for _, g := range groups {
		if len(c.only) > 0 && !slices.Contains(c.only, g.name) {
			continue
		}
		begun := time.Now()
		say := func(format string, args ...any) {
			fmt.Fprintf(stderr, "bench %s: %s\n", g.name, fmt.Sprintf(format, args...))
		}
		say("measuring")
		figures, err := g.measure(ctx, c, say)
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		say("done in %.1f s", time.Since(begun).Seconds())
		report.Figures = append(report.Figures, figures...)
	}
	report.LoadAfter = loadAverage()
	if err := report.write(c.out); err != nil {
		return err
	}
	if err := report.print(stdout); err != nil {
		return err
	}
	if missed := report.missed(); c.check && len(missed) > 0 {
		return fmt.Errorf("missed targets: %s", strings.Join(missed, ", "))
	}
	return nil
}

// write stores the report as JSON.
func (r Report) write(path string) error {
	if path == "" {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}
