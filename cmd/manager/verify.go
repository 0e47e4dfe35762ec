package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/agentloop/agentloop/pkg/trajectory/verify"
)

const verifyUsage = `manager verify checks that the export of a trajectory is complete and that nobody changed it.

  manager verify --export FILE            check a file; - is standard input
  manager verify --export FILE -o json    say it as JSON

The export is one in NDJSON, as it is or compressed with gzip or zstd. Neither the cluster nor the stores are asked.

It checks the first line with the index; of every line of type entry that it is JSON, that the index has it, at this place and with
the same description, and that what it refers to is in the index; the last line's count and its checksum of everything before;
and that nothing follows.

Exit codes: 0 the export is complete, 1 something is wrong with it, 2 it could not be read.
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
		return "the export is not complete"
	}
	return e.cause.Error()
}

func (e *unverifiedError) Unwrap() error { return e.cause }

// verifyExport checks an export and says what is wrong with it.
func verifyExport(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("manager verify", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, verifyUsage, "\nFlags:\n")
		fs.PrintDefaults()
	}
	path := fs.String("export", "", "file to check; - for standard input")
	format := fs.String("o", "text", "text or json")
	quiet := fs.Bool("quiet", false, "say nothing about the progress")
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return &unverifiedError{exitUnreadable, err}
	case fs.NArg() > 0:
		return &unverifiedError{exitUnreadable, fmt.Errorf("unknown argument %q; see manager verify --help", fs.Arg(0))}
	case *path == "":
		return &unverifiedError{exitUnreadable, errors.New("name the file with --export; see manager verify --help")}
	case *format != "text" && *format != "json":
		return &unverifiedError{exitUnreadable, fmt.Errorf("-o %s: use text or json", *format)}
	}
	from := stdin
	if *path != "-" {
		file, err := os.Open(*path)
		if err != nil {
			return &unverifiedError{exitUnreadable, err}
		}
		defer func() { _ = file.Close() }() // it was only read
		from = file
	}
	var progress func(int64)
	if !*quiet {
		progress = func(n int64) { fmt.Fprintf(stderr, "manager verify: %d MiB checked\n", n>>20) }
	}
	report, err := verifyStream(from, progress)
	if err != nil {
		return &unverifiedError{exitUnreadable, err}
	}
	if err := printReport(stdout, report, *format); err != nil {
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
