package services

import (
	"context"
	"os/exec"
	"time"
)

// ProgramOptions say how a program besides the servers of this package is run.
type ProgramOptions struct {
	// Name stands in errors, LogPath is where its output goes.
	Name, LogPath string
	// Command makes the command of one start; it may give another one each time.
	Command func() *exec.Cmd
	// Ready asks once whether the program is up; Start repeats it.
	Ready func(context.Context) error
	// StopLimit is how long it may take to end when it is asked to; 20 s if zero.
	StopLimit time.Duration
}

// NewProgram returns a program that is not started yet. It is held to the same rules as the servers.
func NewProgram(opts ProgramOptions) *Process {
	return &Process{name: opts.Name, logPath: opts.LogPath, command: opts.Command, ready: opts.Ready, stopLimit: opts.StopLimit}
}
