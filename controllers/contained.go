package controllers

import (
	"errors"
	"log/slog"
	"runtime/debug"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// errPanicked is returned when looking at a session met a fault of this program: it is that session's, and ends no
// controller.
var errPanicked = errors.New("this session met a fault of the program")

// contained is deferred by background work about one session. It turns a panic into errPanicked and logs it without what
// may be content.
func contained(logger *slog.Logger, stream runevent.Stream, err *error) {
	reason := recover()
	if reason == nil {
		return
	}
	fault := &agent.Panic{Reason: reason, Stack: debug.Stack()}
	logger.Error("background work panicked", "namespace", stream.Namespace, "session", stream.Session, "panic", fault.Error(), "stack", string(fault.Stack))
	*err = errPanicked
}
