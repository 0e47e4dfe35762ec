package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agentloop/agentloop/cmd/internal/exportcheck"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/viewer"
	"github.com/agentloop/agentloop/pkg/trajectory/verify"
)

// exportOptions are the flags of export.
type exportOptions struct {
	*app
	to, format string
	content    bool
	quiet      bool
}

// forms are the formats of exports by the name that the viewer has for them.
var forms = map[string]string{"ndjson": "ndjson", "otlp": "otlp-json", "atif": "atif"}

func (a *app) export() *cobra.Command {
	o := &exportOptions{app: a}
	c := &cobra.Command{
		Use:   "export SESSION",
		Short: "Download all evidence of a session and check that it is whole",
		Long: `Writes the session's trajectory to standard output, or to a file that has its name only once it is whole. An NDJSON export is checked
while it is written: its index, every line, its count and checksum. It holds prompts, answers and what tools returned: treat it
accordingly. An export is evidence, not a backup.`,
		Example: `  kubectl agentloop export trip --to trip.ndjson
  kubectl agentloop export trip | gzip > trip.ndjson.gz
  kubectl agentloop export trip --format=otlp --to trip.otlp.jsonl`,
		GroupID: groupRead, Args: exactly(1, "a session"), ValidArgsFunction: a.sessionNames,
		RunE: func(c *cobra.Command, args []string) error {
			if forms[o.format] == "" {
				return usageError(c, fmt.Errorf("--format %s: use ndjson, otlp or atif", o.format))
			}
			return o.do(c.Context(), args[0])
		},
	}
	c.Flags().StringVar(&o.to, "to", "-", "File to write; - for standard output")
	c.Flags().StringVar(&o.format, "format", "ndjson", "ndjson (everything), otlp (OpenTelemetry GenAI spans), atif (a document for each run)")
	c.Flags().BoolVar(&o.content, "content", false, "With --format=otlp, write prompts, messages, arguments and results too")
	c.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "Say nothing when it is whole")
	return c
}

func (o *exportOptions) do(ctx context.Context, session string) (err error) {
	c, v, err := o.reading(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	query := url.Values{"format": {forms[o.format]}}
	if o.format == "otlp" {
		query.Set("content", strconv.FormatBool(o.content))
	}
	to, keep, err := o.open(o.to)
	if err != nil {
		return err
	}
	said, err := o.write(ctx, v, session, query, to)
	if err = o.missing(ctx, c, session, err); err == nil {
		err = keep()
	} else if o.to != "-" {
		err = errors.Join(err, fmt.Errorf("what came is in %s", partial(o.to)))
	}
	if err == nil && !o.quiet {
		o.Streams.Note("%s", said)
	}
	return err
}

func partial(file string) string { return file + ".partial" }

// open makes the place that is written to. keep gives it its name.
func (o *exportOptions) open(file string) (to io.Writer, keep func() error, err error) {
	if file == "-" {
		return o.Streams.Out, func() error { return nil }, nil
	}
	f, err := os.OpenFile(partial(file), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	return f, func() error {
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
		return os.Rename(partial(file), filepath.Clean(file))
	}, nil
}

// write copies the export and checks it on the way.
func (o *exportOptions) write(ctx context.Context, v *viewer.Client, session string, query url.Values, to io.Writer) (string, error) {
	if o.format != "ndjson" {
		counted := &counter{to: to}
		if err := v.Export(ctx, session, query, counted); err != nil {
			return "", err
		}
		return fmt.Sprintf("whole: %d documents, %d bytes", counted.lines, counted.bytes), nil
	}
	reader, writer := io.Pipe()
	checked := make(chan verify.Report, 1)
	go func() {
		report, err := verify.Export(reader, nil)
		if err != nil { // the writer has said why
			report.Complete = false
		}
		_, _ = io.Copy(io.Discard, reader) // the transfer goes on whatever was found
		checked <- report
	}()
	err := v.Export(ctx, session, query, io.MultiWriter(to, writer))
	_ = writer.CloseWithError(err) // nil is its end
	report := <-checked
	switch {
	case err != nil:
		return "", err
	case !report.Complete:
		text := "the export is not whole"
		if len(report.Problems) > 0 {
			text += ": " + report.Problems[0].Message + " " + report.Problems[0].Advice
		}
		return "", errors.New(text)
	}
	return fmt.Sprintf("whole: %d entries, %d bytes, sha256 %s", report.Entries, report.Bytes, report.SHA256), nil
}

// counter counts what is written.
type counter struct {
	to           io.Writer
	lines, bytes int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	for _, b := range p[:n] {
		if b == '\n' {
			c.lines++
		}
	}
	c.bytes += int64(n)
	return n, err
}

func (a *app) verify() *cobra.Command {
	var output format
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check an export: that it is whole and was not changed",
		Long: `Checks an NDJSON export, as it is or compressed with gzip or zstd; - reads standard input. Neither cluster nor viewer is asked.

Exit codes: 0 all is there and unchanged, 1 something is wrong, 2 it could not be read.`,
		Example: `  kubectl agentloop verify trip.ndjson
  kubectl agentloop verify trip.ndjson.gz -o json`,
		GroupID: groupOther, Args: exactly(1, "a file"),
		RunE: func(_ *cobra.Command, args []string) error { return a.verifyFile(args[0], output) },
	}
	output.bind(c, formatJSON)
	return c
}

func (a *app) verifyFile(name string, output format) error {
	from := a.Streams.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return &ExitError{ExitUsage, err}
		}
		defer func() { _ = file.Close() }() // it was only read
		from = file
	}
	report, err := exportcheck.Stream(from, func(n int64) { a.Streams.Note("%d MiB checked", n>>20) })
	if err != nil {
		return &ExitError{ExitUsage, err}
	}
	form := "text"
	if output.value == formatJSON {
		form = "json"
	}
	if err := exportcheck.Print(a.Streams.Out, report, form); err != nil {
		return &ExitError{ExitUsage, err}
	}
	if !report.Complete {
		return &ExitError{Code: ExitFailed}
	}
	return nil
}
