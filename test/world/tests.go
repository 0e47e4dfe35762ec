package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agentloop/agentloop/test/services"
)

// Suite is a package of tests that share one world.
type Suite struct {
	// Name is part of the folder's name, Target the make target that sets what the tests need.
	Name, Target string
	// Options are the world's, but for its folders and Progress.
	Options Options
	// Ready takes the world before the first test.
	Ready func(*World) error
	// Run runs the tests and returns their exit code, as testing.M does.
	Run func() int
}

// Main starts the world, runs the tests and stops it. It returns the exit code of the process. A failed run leaves its logs.
func (s Suite) Main() int {
	code, dir, err := s.main()
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.Name, err)
		code = 1
	case code == 0:
		_ = os.RemoveAll(dir)
		return 0
	}
	if dir != "" {
		fmt.Fprintln(os.Stderr, "logs are kept in", dir)
	}
	return code
}

func (s Suite) main() (code int, dir string, err error) {
	for _, needed := range []string{"KUBEBUILDER_ASSETS", services.FolderVariable} {
		if os.Getenv(needed) == "" {
			return 1, "", fmt.Errorf("%s is not set: run this with `make %s`", needed, s.Target)
		}
	}
	opts := s.Options
	if opts.Root, err = filepath.Abs("../.."); err != nil {
		return 1, "", err
	}
	if dir, err = os.MkdirTemp("", "agentloop-"+s.Name+"-"); err != nil {
		return 1, "", err
	}
	opts.Dir, opts.Bin = dir, filepath.Join(opts.Root, "bin")
	opts.Assets, opts.Programs = os.Getenv("KUBEBUILDER_ASSETS"), os.Getenv(services.FolderVariable)
	opts.Progress = func(format string, args ...any) { fmt.Fprintf(os.Stderr, "world: "+format+"\n", args...) }
	w, err := Start(context.Background(), opts)
	if err != nil {
		return 1, dir, fmt.Errorf("the world does not start: %w", err)
	}
	defer func() {
		if stopped := w.Stop(); stopped != nil {
			err = errors.Join(err, fmt.Errorf("stop the world: %w", stopped))
		}
	}()
	if err := s.Ready(w); err != nil {
		return 1, dir, err
	}
	return s.Run(), dir, nil
}
