package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/agentloop/agentloop/cmd/internal/options"
	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/sweep"
)

const sweepUsage = `manager sweep finds the objects of a session that nothing refers to, which crashed steps leave behind.

  manager sweep --namespace NS --session NAME-or-UID            list them, and change nothing
  manager sweep --namespace NS --session NAME-or-UID --apply    remove them

Everything that the session's events reach is read. An object goes when nothing names it and it is older than --grace by the store's own
clock. With --apply no run of the session may be under way; suspend the session (spec.suspend) so that none begins. When one begins
all the same, what was just removed is put back. Anything that cannot be read ends the sweep. Each object is a line of JSON on standard
output, and the last line is the sum.
`

// sweepRequest is what the command line says.
type sweepRequest struct {
	namespace, session string
	apply              bool
	grace, settle      time.Duration
	timeout            time.Duration
	nats               options.NATS
	store              options.Store
	logging            options.Logging
}

func parseSweep(args []string, stderr io.Writer) (sweepRequest, error) {
	var r sweepRequest
	fs := flag.NewFlagSet("manager sweep", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, sweepUsage, "\nFlags:\n")
		fs.PrintDefaults()
	}
	fs.StringVar(&r.namespace, "namespace", "", "namespace of the session")
	fs.StringVar(&r.session, "session", "", "name of the session, or UID of its history (status.storageUID)")
	fs.BoolVar(&r.apply, "apply", false, "remove what nothing refers to")
	fs.DurationVar(&r.grace, "grace", cas.MinGrace, "age from which an object may be removed, at least 24h")
	fs.DurationVar(&r.settle, "settle", 30*time.Second, "how long the sweep waits after a removal before it looks whether the session was used meanwhile")
	fs.DurationVar(&r.timeout, "timeout", time.Hour, "how long it may take")
	r.nats.Bind(fs)
	r.store.Bind(fs)
	r.logging.Bind(fs)
	if err := fs.Parse(args); err != nil {
		return r, err
	}
	switch {
	case fs.NArg() > 0:
		return r, fmt.Errorf("unknown argument %q; see manager sweep --help", fs.Arg(0))
	case r.namespace == "" || r.session == "":
		return r, errors.New("--namespace and --session are needed; see manager sweep --help")
	case r.grace < cas.MinGrace:
		return r, fmt.Errorf("--grace=%s: use %s or more; a writer may still refer to an object that is younger", r.grace, cas.MinGrace)
	}
	return r, nil
}

// sweepCommand sweeps one session.
func sweepCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	r, err := parseSweep(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	found, err := findHistory(ctx, r.namespace, r.session)
	if err != nil {
		return err
	}
	logger, err := r.logging.Logger()
	if err != nil {
		return err
	}
	store, err := r.store.Open(logger)
	if err != nil {
		return err
	}
	nc, log, err := r.nats.Connect("agentloop-sweep", logger)
	if err != nil {
		return err
	}
	defer nc.Close()
	history, err := archive.Over(log, store, logger)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(stdout)
	s := &sweep.Sweep{
		Log: history, Store: store, Scope: found.scope, Grace: r.grace, Apply: r.apply, Settle: r.settle, Sleep: options.Sleep,
		Report: func(o sweep.Orphan) error {
			return lines.Encode(struct {
				Type string `json:"type"`
				sweep.Orphan
			}{"orphan", o})
		},
	}
	result, err := s.Run(ctx)
	if err != nil {
		return err
	}
	return lines.Encode(struct {
		Type    string `json:"type"`
		Applied bool   `json:"applied"`
		sweep.Result
	}{"summary", r.apply, result})
}
