package agent

import (
	"bytes"
	"context"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/session"
)

// begun is an object that is being stored while the entries before the one that names it are appended. It may become durable although
// that entry is never written, which is what the sweep of orphans is for.
type begun struct {
	raw  []byte
	done chan struct{} // closed when the rest is set
	ref  cas.Ref
	err  error
	// fault is what the goroutine panicked with.
	fault *Panic
}

// storeBeside stores an object beside what goes on here, in one try. What it returns must be called: it ends that and waits.
func (l *loop) storeBeside(ctx context.Context, mediaType string, raw []byte) (*begun, func()) {
	storing, cancel := outlive(ctx)
	b := &begun{raw: raw, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.fault = caught(func() { b.ref, b.err = l.put(storing, mediaType, raw) })
	}()
	return b, func() { cancel(); <-b.done }
}

// saveBegun is save for an object that may have been begun: its outcome is the first try's.
func (l *loop) saveBegun(ctx context.Context, b *begun, mediaType string, raw []byte) (cas.Ref, error) {
	if b == nil || !bytes.Equal(b.raw, raw) {
		return l.save(ctx, mediaType, raw)
	}
	ref, first := cas.Ref{}, true
	err := l.retrySave(ctx, "store an object", func() (err error) {
		if first {
			first = false
			<-b.done
			if b.fault != nil {
				panic(b.fault)
			}
			ref, err = b.ref, b.err
			return err
		}
		ref, err = l.put(ctx, mediaType, raw)
		return err
	})
	return ref, err
}

// beginAnswer stores a response while its last increments are appended. What it returns must be called.
func (c *call) beginAnswer(ctx context.Context, response provider.Response) func() {
	raw, err := session.EncodeObject(c.action(response))
	if err != nil {
		return func() {} // which is found again when it is saved
	}
	var end func()
	c.begun, end = c.loop.storeBeside(ctx, cas.MediaModelAction, raw)
	return end
}

// action is what is stored of a response.
func (c *call) action(response provider.Response) session.ModelAction {
	assistant := response.Message
	assistant.Provider, assistant.API, assistant.Model = c.model.Provider, string(c.model.API), c.model.ID
	assistant.Prefix = c.prefix
	return session.ModelAction{
		V: session.ObjectVersion, RequestExecutionID: c.invocation.RequestExecutionID, Turn: c.invocation.Turn, ContextRef: c.invocation.ContextRef,
		ResponseID: response.ResponseID, RawStopReason: response.RawStopReason, Message: assistant,
	}
}
