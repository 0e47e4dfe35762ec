package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"
)

// The reasons for which the transport itself ends a call.
var (
	// ErrIdleTimeout is returned when no byte moved for the idle timeout.
	ErrIdleTimeout = errors.New("the provider was silent for too long")
	// ErrRequestTimeout is returned when a call took longer than the request timeout.
	ErrRequestTimeout = errors.New("the model call took too long")
	// ErrResponseTooLarge is returned when a response or one of its events exceeds its bound.
	ErrResponseTooLarge = errors.New("the provider's response is too large")
)

// callWatch ends one HTTP exchange when it is silent or takes too long. Its timers run from the start of the request to
// stop.
type callWatch struct {
	cancel context.CancelCauseFunc
	cause  func() error
	idle   time.Duration
	timer  *time.Timer // nil without an idle timeout
	total  *time.Timer // nil without a request timeout
}

// watch starts the timers and returns the context that they end.
func watch(parent context.Context, idle, total time.Duration) (context.Context, *callWatch) {
	ctx, cancel := context.WithCancelCause(parent)
	w := &callWatch{cancel: cancel, cause: func() error { return context.Cause(ctx) }, idle: idle}
	if idle > 0 {
		w.timer = time.AfterFunc(idle, func() { cancel(ErrIdleTimeout) })
	}
	if total > 0 {
		w.total = time.AfterFunc(total, func() { cancel(ErrRequestTimeout) })
	}
	return ctx, w
}

// alive says that bytes moved. It may be called from several goroutines.
func (w *callWatch) alive() {
	if w.timer != nil {
		w.timer.Reset(w.idle)
	}
}

// hurry ends the exchange after d at the latest.
func (w *callWatch) hurry(d time.Duration) {
	if w.total != nil {
		w.total.Stop()
	}
	w.total = time.AfterFunc(d, func() { w.cancel(errDrained) })
}

var errDrained = errors.New("stream let go after its end")

func (w *callWatch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.total != nil {
		w.total.Stop()
	}
	w.cancel(errDrained)
}

// explain replaces the error of a cut connection by the reason it was cut for, when that was ours.
func (w *callWatch) explain(err error) error {
	cause := w.cause()
	if errors.Is(cause, ErrIdleTimeout) || errors.Is(cause, ErrRequestTimeout) {
		return cause
	}
	return err
}

// upload returns a request body that counts as a sign of life while it is read.
func (w *callWatch) upload(body []byte) io.ReadCloser {
	return &uploadBody{in: bytes.NewReader(body), watch: w}
}

type uploadBody struct {
	in    *bytes.Reader
	watch *callWatch
}

func (u *uploadBody) Read(p []byte) (int, error) {
	u.watch.alive()
	return u.in.Read(p)
}

func (u *uploadBody) Close() error { return nil }
