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
)

const archiveUsage = `manager archive moves the events of a session's ended runs into archive files of the object store.

  manager archive --namespace NS --session NAME-or-UID             write what is not archived yet
  manager archive --namespace NS --session NAME-or-UID --remove    and remove from the event stream what the files have

The same again changes nothing. What is removed was read back and compared before, and everything goes on reading it from the files.
The controllers do the same by themselves when the stream fills (--archive-above). Use one at a time for a session.
`

// archiveRequest is what the command line says.
type archiveRequest struct {
	namespace, session string
	remove             bool
	timeout            time.Duration
	nats               options.NATS
	store              options.Store
	logging            options.Logging
}

func parseArchive(args []string, stderr io.Writer) (archiveRequest, error) {
	var r archiveRequest
	fs := flag.NewFlagSet("manager archive", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, archiveUsage, "\nFlags:\n")
		fs.PrintDefaults()
	}
	fs.StringVar(&r.namespace, "namespace", "", "namespace of the session")
	fs.StringVar(&r.session, "session", "", "name of the session, or UID of its history (status.storageUID)")
	fs.BoolVar(&r.remove, "remove", false, "remove from the event stream what is archived")
	fs.DurationVar(&r.timeout, "timeout", 30*time.Minute, "how long it may take")
	r.nats.Bind(fs)
	r.store.Bind(fs)
	r.logging.Bind(fs)
	if err := fs.Parse(args); err != nil {
		return r, err
	}
	switch {
	case fs.NArg() > 0:
		return r, fmt.Errorf("unknown argument %q; see manager archive --help", fs.Arg(0))
	case r.namespace == "" || r.session == "":
		return r, errors.New("--namespace and --session are needed; see manager archive --help")
	}
	return r, nil
}

// archiveCommand archives one session and prints what was done.
func archiveCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	r, err := parseArchive(args, stderr)
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
	nc, log, err := r.nats.Connect("agentloop-archive", logger)
	if err != nil {
		return err
	}
	defer nc.Close()
	a := &archive.Archiver{Log: log, Trimmer: log, Store: store, Archives: store}
	result, err := a.Session(ctx, found.scope, r.remove)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(result)
}
