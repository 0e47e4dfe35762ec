package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/agentloop/agentloop/cmd/internal/options"
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
	storedSession
	apply         bool
	grace, settle time.Duration
	timeout       time.Duration
}

func parseSweep(args []string, stderr io.Writer) (sweepRequest, error) {
	var r sweepRequest
	fs := flag.NewFlagSet("manager sweep", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, sweepUsage, "\nFlags:\n")
		fs.PrintDefaults()
	}
	r.bind(fs)
	fs.BoolVar(&r.apply, "apply", false, "remove what nothing refers to")
	fs.DurationVar(&r.grace, "grace", cas.MinGrace, "age from which an object may be removed, at least 24h")
	fs.DurationVar(&r.settle, "settle", 30*time.Second, "how long the sweep waits after a removal before it looks whether the session was used meanwhile")
	fs.DurationVar(&r.timeout, "timeout", time.Hour, "how long it may take")
	if err := r.parse(fs, args); err != nil {
		return r, err
	}
	if r.grace < cas.MinGrace {
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
	o, err := r.open(ctx, "agentloop-sweep")
	if err != nil {
		return err
	}
	defer o.close()
	history, err := o.whole()
	if err != nil {
		return err
	}
	lines := json.NewEncoder(stdout)
	s := &sweep.Sweep{
		Log: history, Store: o.store, Scope: o.scope, Grace: r.grace, Apply: r.apply, Settle: r.settle, Sleep: options.Sleep,
		Report: func(found sweep.Orphan) error {
			return lines.Encode(struct {
				Type string `json:"type"`
				sweep.Orphan
			}{"orphan", found})
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
