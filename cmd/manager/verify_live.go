package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/internal/options"
	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/audit"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// liveVerification is the check of a session where it is stored.
type liveVerification struct {
	namespace, session string
	timeout            time.Duration
	nats               options.NATS
	store              options.Store
	logging            options.Logging
}

func (v *liveVerification) bind(fs *flag.FlagSet) {
	fs.StringVar(&v.namespace, "namespace", "", "namespace of the session")
	fs.StringVar(&v.session, "session", "", "name of the session, or UID of its history (status.storageUID)")
	fs.DurationVar(&v.timeout, "timeout", 0, "how long the check of a session may take; 0 for no limit")
	v.nats.Bind(fs)
	v.store.Bind(fs)
	v.logging.Bind(fs)
}

// history is a session's history: its place in the stores, and how long it is known to be.
type history struct {
	scope  cas.Scope
	expect map[string]int64
}

var uidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// findHistory takes a UID as it is and asks Kubernetes about a name.
func findHistory(ctx context.Context, namespace, session string) (history, error) {
	found := history{scope: cas.Scope{Namespace: namespace, Session: session}}
	if uidPattern.MatchString(session) {
		return found, found.scope.Validate()
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return found, fmt.Errorf("no Kubernetes configuration to look up session %s with: name a kubeconfig file in KUBECONFIG, or give the UID of its history: %w", session, err)
	}
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		return found, err
	}
	kubernetes, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return found, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	var resource api.AgentSession
	if err := kubernetes.Get(ctx, client.ObjectKey{Namespace: namespace, Name: session}, &resource); err != nil {
		return found, fmt.Errorf("look up session %s/%s: %w", namespace, session, err)
	}
	found.scope.Session = resource.HistoryUID()
	found.expect = map[string]int64{runevent.MainAgent: resource.Status.LastSequence}
	return found, found.scope.Validate()
}

// reachable is how long the stores may take to answer for the first time.
const reachable = 30 * time.Second

func (v *liveVerification) run(ctx context.Context, quiet bool, stdout, stderr io.Writer) error {
	if v.timeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, v.timeout)
		defer cancel()
		ctx = bounded
	}
	found, err := findHistory(ctx, v.namespace, v.session)
	if err != nil {
		return &unverifiedError{exitUnreadable, err}
	}
	logger, err := v.logging.Logger()
	if err != nil {
		return &unverifiedError{exitUnreadable, err}
	}
	store, err := v.store.Open(logger)
	if err != nil {
		return &unverifiedError{exitUnreadable, err}
	}
	nc, log, err := v.nats.Connect("agentloop-verify", logger)
	if err != nil {
		return &unverifiedError{exitUnreadable, err}
	}
	defer nc.Close()
	first, cancel := context.WithTimeout(ctx, reachable)
	defer cancel()
	ends, err := log.Streams(first, found.scope.Namespace, found.scope.Session)
	if err != nil {
		return &unverifiedError{exitUnreadable, fmt.Errorf("ask --nats-url %s: %w", v.nats.URL, err)}
	}
	if len(ends) == 0 && found.expect[runevent.MainAgent] == 0 {
		return &unverifiedError{exitUnreadable, fmt.Errorf("the log knows no events of %s/%s: check namespace and UID, --nats-url and --nats-stream", found.scope.Namespace, found.scope.Session)}
	}
	history, err := archive.Over(log, store, logger)
	if err != nil {
		return &unverifiedError{exitUnreadable, err}
	}
	return auditSession(ctx, history, store, found, reporting{quiet: quiet, stdout: stdout, stderr: stderr})
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
