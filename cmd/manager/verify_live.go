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
	"github.com/agentloop/agentloop/pkg/audit"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// liveVerification is the check of a session where it is stored.
type liveVerification struct {
	storedSession
	timeout time.Duration
}

func (v *liveVerification) bind(fs *flag.FlagSet) {
	v.storedSession.bind(fs)
	fs.DurationVar(&v.timeout, "timeout", 0, "how long the check of a session may take; 0 for no limit")
}

// reachable is how long the stores may take to answer for the first time.
const reachable = 30 * time.Second

func (v *liveVerification) run(ctx context.Context, quiet bool, stdout, stderr io.Writer) error {
	if v.timeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, v.timeout)
		defer cancel()
		ctx = bounded
	}
	o, err := v.open(ctx, "agentloop-verify")
	if err != nil {
		return &unverifiedError{exitUnreadable, err}
	}
	defer o.close()
	found := o.history
	first, cancel := context.WithTimeout(ctx, reachable)
	defer cancel()
	ends, err := o.log.Streams(first, found.scope.Namespace, found.scope.Session)
	if err != nil {
		return &unverifiedError{exitUnreadable, fmt.Errorf("ask --nats-url %s: %w", v.nats.URL, err)}
	}
	if len(ends) == 0 && found.expect[runevent.MainAgent] == 0 {
		return &unverifiedError{exitUnreadable, fmt.Errorf("the log knows no events of %s/%s: check namespace and UID, --nats-url and --nats-stream", found.scope.Namespace, found.scope.Session)}
	}
	whole, err := o.whole()
	if err != nil {
		return &unverifiedError{exitUnreadable, err}
	}
	return auditSession(ctx, whole, o.store, found, reporting{quiet: quiet, stdout: stdout, stderr: stderr})
}

// reporting is where the results go.
type reporting struct {
	quiet          bool
	stdout, stderr io.Writer
}

// auditSession prints each problem as it is found, and what was looked at.
func auditSession(ctx context.Context, log audit.Log, store options.Driver, found history, out reporting) error {
	lines := json.NewEncoder(out.stdout)
	lines.SetEscapeHTML(false)
	a := &audit.Audit{Log: log, Store: store, Archives: store, Scope: found.scope, Expect: found.expect, Report: func(p audit.Problem) error {
		return lines.Encode(struct {
			Type string `json:"type"`
			audit.Problem
		}{"problem", p})
	}}
	if !out.quiet {
		a.Progress = func(s audit.Summary) {
			fmt.Fprintf(out.stderr, "manager verify: %d entries, %d objects, %d MiB, %d problems\n", s.Entries, s.Objects, s.Bytes>>20, s.Problems)
		}
	}
	sum, err := a.Run(ctx)
	if err != nil {
		return &unverifiedError{exitUnreadable, err}
	}
	err = lines.Encode(struct {
		Type      string `json:"type"`
		Namespace string `json:"namespace"`
		Session   string `json:"session"`
		Complete  bool   `json:"complete"`
		audit.Summary
	}{"summary", found.scope.Namespace, found.scope.Session, sum.Problems == 0, sum})
	if err != nil {
		return &unverifiedError{exitUnreadable, errors.Join(errors.New("print the summary"), err)}
	}
	if sum.Problems > 0 {
		return &unverifiedError{code: exitWrong}
	}
	return nil
}
