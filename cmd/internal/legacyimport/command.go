// Package legacyimport is the command "manager import-legacy": it copies journals, event segments and payloads that
// earlier versions wrote into a session's part of the object store, where the trajectory reads them.
//
// Guarantees: the files in the folder are only read; every file is stored byte for byte, whatever stands in it; nothing
// is stored unless all files could be read and, without --accept-damaged, understood; a file counts as imported only when
// all of its bytes are durable; the same folder again changes nothing.
package legacyimport

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/agentloop/agentloop/cmd/internal/options"
	"github.com/agentloop/agentloop/pkg/cas"
)

const usage = `manager import-legacy copies journals and event segments of earlier versions into a session's part of the object store.
The trajectory then shows them. Files are stored byte for byte and never changed; the folder is only read.

  manager import-legacy [flags] --namespace N --session UID FOLDER

FOLDER has trajectories/AGENT/RUN.jsonl, segments/ and payloads/ (docs/format/legacy.md). UID is the name of the session's
history: kubectl get agentsession NAME -n N -o jsonpath='{.status.storageUID}'
The same folder again changes nothing. A journal that has grown may be imported again.
`

// request is what the command line says.
type request struct {
	scope   cas.Scope
	folder  string
	dryRun  bool
	accept  bool
	store   options.Store
	logging options.Logging
}

func parse(args []string, out io.Writer) (request, error) {
	var c request
	fs := flag.NewFlagSet("manager import-legacy", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), usage, "\nFlags:\n")
		fs.PrintDefaults()
	}
	c.store.Bind(fs)
	c.logging.Bind(fs)
	fs.StringVar(&c.scope.Namespace, "namespace", "", "namespace of the session")
	fs.StringVar(&c.scope.Session, "session", "", "UID of the session's history")
	fs.BoolVar(&c.dryRun, "dry-run", false, "check the files and say what would be stored, and store nothing")
	fs.BoolVar(&c.accept, "accept-damaged", false, "store files although lines of them are damaged, or they are of no known kind; the trajectory says so at their place")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	switch {
	case c.scope.Namespace == "" || c.scope.Session == "":
		return c, errors.New("--namespace and --session are needed; see manager import-legacy --help")
	case fs.NArg() != 1:
		return c, errors.New("name one folder; see manager import-legacy --help")
	}
	if err := c.scope.Validate(); err != nil {
		return c, err
	}
	c.folder = fs.Arg(0)
	return c, nil
}

// Run is the command. The result goes to stdout, progress and problems to stderr. flag.ErrHelp is returned when help was
// asked for.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parse(args, stderr)
	if err != nil {
		return err
	}
	logger, err := c.logging.Logger()
	if err != nil {
		return err
	}
	return c.run(ctx, logger, stdout, stderr)
}

func (c request) run(ctx context.Context, logger *slog.Logger, stdout, stderr io.Writer) error {
	store, err := c.store.Open(logger)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(c.folder)
	if err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	defer func() { _ = root.Close() }() // only read
	in := &importer{Store: store, Scope: c.scope, Folder: root.FS(), Accept: c.accept, DryRun: c.dryRun, Progress: stderr}
	result, err := in.run(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, result)
	return err
}
