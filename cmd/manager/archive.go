package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"time"

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
	storedSession
	remove  bool
	timeout time.Duration
}

func parseArchive(args []string, stderr io.Writer) (archiveRequest, error) {
	var r archiveRequest
	fs := flag.NewFlagSet("manager archive", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, archiveUsage, "\nFlags:\n")
		fs.PrintDefaults()
	}
	r.bind(fs)
	fs.BoolVar(&r.remove, "remove", false, "remove from the event stream what is archived")
	fs.DurationVar(&r.timeout, "timeout", 30*time.Minute, "how long it may take")
	return r, r.parse(fs, args)
}

// archiveCommand archives one session and prints what was done.
func archiveCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	r, err := parseArchive(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	o, err := r.open(ctx, "agentloop-archive")
	if err != nil {
		return err
	}
	defer o.close()
	a := &archive.Archiver{Log: o.log, Trimmer: o.log, Store: o.store, Archives: o.store}
	result, err := a.Session(ctx, o.scope, r.remove)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(result)
}
