// Command demo runs agentloop on this machine and shows a session at work: it starts a control plane, NATS, S3, a model
// server, an MCP server, manager and viewer on loopback, applies a ModelProvider, an AgentSession and two AgentRuns with
// kubectl, and prints what came of them and where the trajectory can be looked at. It stays until it is interrupted, or
// ends by itself with a check.
//
// Guarantees: everything is started on free ports of loopback and kept in one temporary folder; both are gone when the
// program has ended, but for the logs of a demo that failed; an API key is handed to nothing but the Secret that the
// ModelProvider names and is never printed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/agentloop/agentloop/test/world"
)

// config is what flags and environment say.
type config struct {
	root, assets, programs, bin string
	// check ends the demo by itself, after a check of what it showed.
	check bool
	model model
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetLogger(logr.Discard())
	cfg, err := parse(os.Args[1:], os.Getenv)
	// The programs that are started inherit the environment and have no business with the keys.
	for _, name := range keyVariables {
		err = errors.Join(err, os.Unsetenv(name))
	}
	if err == nil {
		err = run(ctx, cfg, os.Stdout)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "demo: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func parse(args []string, getenv func(string) string) (config, error) {
	c := config{check: getenv("DEMO_EXIT") == "1"}
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.StringVar(&c.root, "root", ".", "the project's top folder")
	fs.StringVar(&c.assets, "assets", "", "folder with the control plane's programs (make control-plane prints it)")
	fs.StringVar(&c.programs, "services", "", "folder with the NATS and S3 servers (make services prints it)")
	fs.StringVar(&c.bin, "bin", "", "folder with manager and viewer; bin in the top folder when empty")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unknown argument %q", fs.Arg(0))
	}
	if c.assets == "" || c.programs == "" {
		return c, errors.New("-assets and -services are needed: run `make demo`, which finds both")
	}
	var err error
	if c.root, err = filepath.Abs(c.root); err != nil {
		return c, err
	}
	if c.bin == "" {
		c.bin = filepath.Join(c.root, "bin")
	}
	for _, program := range []string{"manager", "viewer"} {
		if _, err := os.Stat(filepath.Join(c.bin, program)); err != nil {
			return c, fmt.Errorf("there is no %s in %s: run `make demo`, which builds it", program, c.bin)
		}
	}
	c.model, err = chooseModel(getenv)
	return c, err
}

// run starts the world, tells the story, and takes everything down again.
func run(ctx context.Context, c config, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "agentloop-demo-")
	if err != nil {
		return err
	}
	s := newScreen(out)
	defer func() {
		if err != nil && !errors.Is(err, context.Canceled) {
			err = fmt.Errorf("%w\nThe logs of all parts are kept in %s", err, dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	s.title("agentloop demo")
	s.say("%s", c.model.about())
	s.say("everything listens on loopback only and is kept in %s", dir)
	s.step("starting a Kubernetes API server, NATS, S3, a model server, an MCP server, manager and viewer (about 20 s)")
	w, err := world.Start(ctx, world.Options{
		Root: c.root, Dir: dir, Assets: c.assets, Programs: c.programs, Bin: c.bin, Progress: s.step,
		ManagerFlags: []string{"--log-level=info"},
	})
	if err != nil {
		return err
	}
	defer func() {
		s.step("stopping everything")
		err = errors.Join(err, w.Stop())
		s.step("stopped")
	}()
	return (&story{screen: s, world: w, model: c.model, check: c.check}).tell(ctx)
}
