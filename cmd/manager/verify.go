package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/agentloop/agentloop/pkg/trajectory/verify"
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
	report, err := verifyStream(from, progress)
	if err != nil {
		return &unverifiedError{exitUnreadable, err}
	}
	if err := printReport(stdout, report, v.format); err != nil {
		return &unverifiedError{exitUnreadable, fmt.Errorf("print the report: %w", err)}
	}
	if !report.Complete {
		return &unverifiedError{code: exitWrong}
	}
	return nil
}

// verifyStream checks what comes out of a stream that may be compressed. A stream whose compression is cut off or damaged is an
// export that was cut off or damaged.
func verifyStream(from io.Reader, progress func(int64)) (verify.Report, error) {
	source := &remembering{from: from}
	plain, closeStream, err := decompressed(bufio.NewReaderSize(source, 256<<10))
	if err == nil {
		defer closeStream()
		var report verify.Report
		report, err = verify.Export(plain, progress)
		if err == nil {
			return report, nil
		}
		if source.err == nil {
			report.Complete = false
			report.Problems = append(report.Problems, verify.Problem{
				Line: report.Lines, Code: verify.CodeCut, Message: "The compressed file is cut off or damaged: " + err.Error() + ".",
				Advice: "Download it again.",
			})
			return report, nil
		}
	}
	return verify.Report{}, err
}

// remembering keeps why its source could not be read.
type remembering struct {
	from io.Reader
	err  error
}

func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// decompressed looks at the first bytes and takes the compression off.
func decompressed(from *bufio.Reader) (plain io.Reader, closeStream func(), err error) {
	magic, err := from.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		stream, err := gzip.NewReader(from)
		if err != nil {
			return nil, nil, err
		}
		return stream, func() { _ = stream.Close() }, nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		stream, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(64<<20))
		if err != nil {
			return nil, nil, err
		}
		return stream, stream.Close, nil
	}
	return from, func() {}, nil
}

// printReport says what was found, for people or for programs.
func printReport(out io.Writer, report verify.Report, format string) error {
	if format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	var text bytes.Buffer
	if report.Complete {
		fmt.Fprintf(&text, "complete: session %s, %d entries, %d bytes\nsha256 of everything before the last line: %s\n",
			report.Session, report.Entries, report.Bytes, report.SHA256)
	} else {
		fmt.Fprintf(&text, "NOT COMPLETE: session %s, %d of %d entries, %d bytes\n", report.Session, report.Entries, report.Indexed, report.Bytes)
	}
	for _, p := range report.Problems {
		where := "file"
		if p.Line > 0 {
			where = fmt.Sprintf("line %d", p.Line)
		}
		fmt.Fprintf(&text, "%s: %s (%s)\n  %s\n", where, p.Message, p.Code, p.Advice)
	}
	if report.MoreProblems > 0 {
		fmt.Fprintf(&text, "and %d more\n", report.MoreProblems)
	}
	_, err := out.Write(text.Bytes())
	return err
}
