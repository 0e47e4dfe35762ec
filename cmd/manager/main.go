// Command manager runs agentloop's controllers and workers, checks the object store, sessions and exports, archives
// and sweeps sessions, imports files of earlier versions, and suggests manifests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/agentloop/agentloop/cmd/internal/catalogue"
	"github.com/agentloop/agentloop/cmd/internal/legacyimport"
	"github.com/agentloop/agentloop/cmd/internal/options"
	"github.com/agentloop/agentloop/pkg/tool/codemode"
)

const usage = `manager runs agentloop.

  manager [flags]                       run the role that --role names
  manager archive [flags]               move the events of a session's ended runs into the object store
  manager cas-check [flags]             check what the object store can do, and say what is missing
  manager import-legacy [flags] FOLDER  store a session's journals and event segments of earlier versions
  manager models [flags]                suggest ModelProvider manifests from a catalogue
  manager sweep [flags]                 find objects of a session that nothing refers to, and remove them
  manager verify [flags]                check a session, or the export of a trajectory; see manager verify --help
  manager --help                        show the flags
`

func main() {
	if len(os.Args) == 2 && os.Args[1] == codemode.ChildArgument {
		os.Exit(codemode.Child(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:])
	var unverified *unverifiedError
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, &unverified):
		if unverified.cause != nil {
			fmt.Fprintln(os.Stderr, "manager verify:", unverified.cause)
		}
		os.Exit(unverified.code)
	case err != nil:
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "cas-check" {
		return casCheck(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "archive" {
		return archiveCommand(ctx, args[1:], os.Stdout, os.Stderr)
	}
	if len(args) > 0 && args[0] == "sweep" {
		return sweepCommand(ctx, args[1:], os.Stdout, os.Stderr)
	}
	if len(args) > 0 && args[0] == "models" {
		return catalogue.Run(args[1:], os.Stdout, os.Stderr)
	}
	if len(args) > 0 && args[0] == "verify" {
		return verifyCommand(ctx, args[1:], os.Stdin, os.Stdout, os.Stderr)
	}
	if len(args) > 0 && args[0] == "import-legacy" {
		return legacyimport.Run(ctx, args[1:], os.Stdout, os.Stderr)
	}
	cfg, err := parse(args)
	if err != nil {
		return err
	}
	return manage(ctx, cfg)
}

// casCheck prints what the store can do and fails when something that is needed is missing.
func casCheck(ctx context.Context, args []string) error {
	var store options.Store
	var logging options.Logging
	fs := flag.NewFlagSet("manager cas-check", flag.ContinueOnError)
	store.Bind(fs)
	logging.Bind(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	logger, err := logging.Logger()
	if err != nil {
		return err
	}
	s3, err := store.S3(logger)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	report := s3.Probe(bounded)
	fmt.Print(report)
	return report.Err()
}
