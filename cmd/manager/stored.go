package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"regexp"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/internal/options"
	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
)

// storedSession is what the command line says of a session in the stores, for the commands that work on one.
type storedSession struct {
	namespace, session string
	nats               options.NATS
	store              options.Store
	logging            options.Logging
}

func (s *storedSession) bind(fs *flag.FlagSet) {
	fs.StringVar(&s.namespace, "namespace", "", "namespace of the session")
	fs.StringVar(&s.session, "session", "", "name of the session, or UID of its history (status.storageUID)")
	s.nats.Bind(fs)
	s.store.Bind(fs)
	s.logging.Bind(fs)
}

// parse reads the command line of a command that needs a session. The flag set has the command's name.
func (s *storedSession) parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("unknown argument %q; see %s --help", fs.Arg(0), fs.Name())
	case s.namespace == "" || s.session == "":
		return fmt.Errorf("--namespace and --session are needed; see %s --help", fs.Name())
	}
	return nil
}

// opened is a session's history with open stores.
type opened struct {
	history
	conn   *nats.Conn
	log    *natslog.Log
	store  options.Driver
	logger *slog.Logger
}

// open finds the session and connects to its stores. name is the connection's.
func (s *storedSession) open(ctx context.Context, name string) (o opened, err error) {
	if o.history, err = findHistory(ctx, s.namespace, s.session); err != nil {
		return o, err
	}
	if o.logger, err = s.logging.Logger(); err != nil {
		return o, err
	}
	if o.store, err = s.store.Open(o.logger); err != nil {
		return o, err
	}
	o.conn, o.log, err = s.nats.Connect(name, o.logger)
	return o, err
}

func (o *opened) close() { o.conn.Close() }

// whole is the log with its archives.
func (o *opened) whole() (*archive.Log, error) { return archive.Over(o.log, o.store, o.logger) }

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
