package agent

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Panic is a fault of this program that happened in a goroutine beside a run's own. The run's goroutine panics with it,
// so that it is this run's failure and not the end of the process.
type Panic struct {
	// Reason is what the goroutine panicked with. It may hold content.
	Reason any
	// Stack is the goroutine's own.
	Stack []byte
}

// Error names the kind of the fault, and the runtime's own text, but nothing that may be content.
func (p *Panic) Error() string {
	if fault, ok := p.Reason.(runtime.Error); ok {
		return fault.Error()
	}
	return fmt.Sprintf("%T", p.Reason)
}

// caught runs f and returns what it panicked with, or nil. A fault that was passed on stays what it is.
func caught(f func()) (fault *Panic) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case *Panic:
			fault = reason
		default:
			fault = &Panic{Reason: reason, Stack: debug.Stack()}
		}
	}()
	f()
	return nil
}
