package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/agentloop/agentloop/cmd/internal/exportcheck"
)

const verifyUsage = `manager verify checks that a session is whole: where it is stored, or in the export of its trajectory.

  manager verify --namespace NS --session NAME    read a session's events, archives and objects again
  manager verify --namespace NS --session UID     the same of a history whose session may be deleted
  manager verify --export FILE                    check a file; - is standard input
  manager verify --export FILE -o json            say it as JSON

A session is read from NATS and the object store, every entry and every object that the entries reach, and nothing is changed. Each
problem is a line of JSON on standard output, and the last line says what was looked at. With a name, Kubernetes is asked for the UID
of the history and how long it is known to be; with a UID, Kubernetes is not asked.

The export is one in NDJSON, as it is or compressed with gzip or zstd. Neither the cluster nor the stores are asked.

It checks the first line with the index; of every line of type entry that it is JSON, that the index has it, at this place and with
the same description, and that what it refers to is in the index; the last line's count and its checksum of everything before;
and that nothing follows.

Exit codes: 0 all is there and unchanged, 1 something is wrong, 2 it could not be read.
`

// The exit codes of verify.
const (
	exitWrong      = 1
	exitUnreadable = 2
)

// unverifiedError ends the process with a code of its own. cause is empty when everything was said.
type unverifiedError struct {
	code  int
	cause error
}

func (e *unverifiedError) Error() string {
	if e.cause == nil {
		return "what was checked is not whole"
	}
	return e.cause.Error()
}

func (e *unverifiedError) Unwrap() error { return e.cause }

// verification is what the command line of verify asks for.
type verification struct {
	export, format string
	quiet          bool
	live           liveVerification
}

// verifyCommand checks an export or a session, and says what is wrong with it.
func verifyCommand(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	v, err := parseVerify(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return &unverifiedError{exitUnreadable, err}
	case v.export == "":
		return v.live.run(ctx, v.quiet, stdout, stderr)
	}
	return v.verifyExport(stdin, stdout, stderr)
}

func parseVerify(args []string, stderr io.Writer) (verification, error) {
	var v verification
	fs := flag.NewFlagSet("manager verify", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, verifyUsage, "\nFlags:\n")
		fs.PrintDefaults()
	}
	fs.StringVar(&v.export, "export", "", "file to check; - for standard input")
	fs.StringVar(&v.format, "o", "text", "text or json, for --export")
	fs.BoolVar(&v.quiet, "quiet", false, "say nothing about the progress")
	v.live.bind(fs)
	err := fs.Parse(args)
	switch {
	case err != nil:
		return v, err
	case fs.NArg() > 0:
		return v, fmt.Errorf("unknown argument %q; see manager verify --help", fs.Arg(0))
	case v.export == "" && v.live.session == "":
		return v, errors.New("name a file with --export, or a session with --namespace and --session; see manager verify --help")
	case v.export != "" && v.live.session != "":
		return v, errors.New("--export and --session exclude each other")
	case v.export == "" && v.live.namespace == "":
		return v, errors.New("--namespace is missing")
	case v.format != "text" && v.format != "json":
		return v, fmt.Errorf("-o %s: use text or json", v.format)
	}
	return v, nil
}

// verifyExport checks an export.
func (v verification) verifyExport(stdin io.Reader, stdout, stderr io.Writer) error {
	from := stdin
	if v.export != "-" {
		file, err := os.Open(v.export)
		if err != nil {
			return &unverifiedError{exitUnreadable, err}
		}
		defer func() { _ = file.Close() }() // it was only read
		from = file
	}
	var progress func(int64)
	if !v.quiet {
		progress = func(n int64) { fmt.Fprintf(stderr, "manager verify: %d MiB checked\n", n>>20) }
	}
	report, err := exportcheck.Stream(from, progress)
	if err != nil {
		return &unverifiedError{exitUnreadable, err}
	}
	if err := exportcheck.Print(stdout, report, v.format); err != nil {
		return &unverifiedError{exitUnreadable, fmt.Errorf("print the report: %w", err)}
	}
	if !report.Complete {
		return &unverifiedError{code: exitWrong}
	}
	return nil
}
