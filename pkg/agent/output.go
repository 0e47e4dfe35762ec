package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/tool"
)

const (
	// maxOutput bounds what is kept of the output of one execution of a tool, in bytes: it shares the log with what must
	// not be lost.
	maxOutput = 256 << 10
	// outputFlush is how long the result of a tool waits for what the tool printed to be stored.
	outputFlush = 5 * time.Second
	// outputAppend bounds one try to append output.
	outputAppend = 10 * time.Second
	// maxOutputID is how much of a call's id a stream's key begins with, in bytes.
	maxOutputID = 64
)

// textOutputCut ends the output of an execution that printed more than is kept.
var textOutputCut = fmt.Sprintf("[The tool printed more than %d bytes. What follows is not kept.]\n", maxOutput)

// output stores what one execution of a tool prints while it runs, in a stream of its own. It is a convenience for
// those who watch: the tool never waits for it, and a run never fails for it.
type output struct {
	loop  *loop
	event runevent.Event // without text
	key   string

	mu         sync.Mutex
	increments runevent.Increments
	ready      []runevent.Event
	left       int
	begun      bool
	ended      bool

	// wake holds a token while there is something to do; done is closed when nothing is written any more.
	wake chan struct{}
	done chan struct{}
	stop context.CancelFunc
	// fault is a fault of the writing goroutine, to be read once done is closed.
	fault *Panic
}

// output prepares for the output of a call that was just marked as started.
func (l *loop) output(answer answered, call message.Block) *output {
	attempt := 1
	if progress := l.state.Run.Tools[call.ID]; progress != nil {
		attempt = progress.Attempts
	}
	evidence := invocationEvidence(answer.request)
	evidence.AgentID, evidence.AgentRunID = l.run.AgentKey, l.run.UID
	return &output{
		loop: l, left: maxOutput, wake: make(chan struct{}, 1), done: make(chan struct{}),
		event: runevent.Event{Type: runevent.TypeToolOutput, CallID: call.ID, Name: call.Name, Attempt: attempt, Evidence: evidence},
		key:   outputKey(l.run, answer.request.RequestExecutionID, call.ID, attempt),
	}
}

// outputKey names an execution's stream. Models choose the ids of calls, of any characters and more than once in a
// session, so that a hash tells apart what the id does not.
func outputKey(run Run, requestExecutionID, callID string, attempt int) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{run.AgentKey, run.UID, requestExecutionID, callID}, "\x00")))
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, callID)
	return fmt.Sprintf("%s-%s-%d", plain[:min(len(plain), maxOutputID)], hex.EncodeToString(sum[:6]), attempt)
}

// call runs a tool and keeps what it prints.
func (o *output) call(ctx context.Context, call tool.Call) (tool.Result, error) {
	defer o.end()
	return o.execute(ctx, call)
}

// print takes one piece of output, as lines of their own. It never waits.
func (o *output) print(ctx context.Context, text string) {
	if text == "" {
		return
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	now := o.loop.deps.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left < 0 || o.ended {
		return
	}
	if o.left -= len(text); o.left < 0 {
		text = textOutputCut
	}
	for _, piece := range pieces(text, runevent.MaxInline) {
		delta := o.event
		delta.Text = piece
		o.ready = append(o.ready, o.increments.Add(delta, now)...)
	}
	if !o.begun {
		o.begun = true
		writing, stop := context.WithCancel(context.WithoutCancel(ctx))
		o.stop = stop
		go func() {
			defer close(o.done)
			o.fault = caught(func() { o.write(writing) })
		}()
	}
	o.signal()
}

func (o *output) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// pieces cuts a text into parts of at most limit bytes, between two characters.
func pieces(text string, limit int) []string {
	var out []string
	for len(text) > limit {
		end := limit
		for end > limit-4 && text[end]&0xC0 == 0x80 {
			end--
		}
		out, text = append(out, text[:end]), text[end:]
	}
	return append(out, text)
}

// end stores what is left, for as long as a result may wait for it.
func (o *output) end() {
	o.mu.Lock()
	o.ended = true
	begun := o.begun
	o.mu.Unlock()
	if !begun {
		return
	}
	defer o.stop()
	o.signal()
	late := time.NewTimer(outputFlush)
	defer late.Stop()
	select {
	case <-o.done:
	case <-late.C:
		o.stop()
		<-o.done
	}
	if o.fault != nil {
		panic(o.fault)
	}
}

// write appends what is ready until the execution has ended or the log refuses.
func (o *output) write(ctx context.Context) {
	journal := runevent.NewWriter(o.loop.deps.Log, runevent.WriterConfig{
		Stream: runevent.Stream{Class: runevent.ClassOut, Namespace: o.loop.run.Namespace, Session: o.loop.run.SessionUID, Key: o.key},
		Now:    o.loop.deps.Now,
	})
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		events, wait, ended := o.take()
		for _, event := range events {
			if err := o.append(ctx, journal, event); err != nil {
				o.loop.deps.Logger.Warn("output of a tool was not stored", "run", o.loop.run.UID, "tool", o.event.Name, "error", err)
				return
			}
		}
		if ended {
			return
		}
		due.Reset(wait)
		select {
		case <-o.wake:
		case <-due.C:
			o.flush()
		case <-ctx.Done():
			return
		}
	}
}

// take returns what is ready, how long what is held may wait for more, and whether nothing more comes.
func (o *output) take() ([]runevent.Event, time.Duration, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		o.ready = append(o.ready, o.increments.Flush()...)
	}
	events := o.ready
	o.ready = nil
	wait := runevent.MaxMerge
	if due, holds := o.increments.Due(); holds {
		wait = max(due.Sub(o.loop.deps.Now()), time.Millisecond)
	}
	return events, wait, o.ended
}

// flush makes ready what has waited for more.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ready = append(o.ready, o.increments.Flush()...)
}

// append stores one event. A log that is away is tried again until the execution's output has no more time.
func (o *output) append(ctx context.Context, journal *runevent.Writer, event runevent.Event) error {
	started, sent := o.loop.deps.Now(), false
	for {
		err := o.try(ctx, journal, event, sent)
		if err == nil {
			break
		}
		if !errors.Is(err, runevent.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		sent = true
		if err := o.loop.deps.Sleep(ctx, saveBackoff); err != nil {
			return err
		}
	}
	o.mu.Lock()
	o.increments.Acked(o.loop.deps.Now().Sub(started))
	o.mu.Unlock()
	o.loop.deps.Chaos("tool.output")
	return nil
}

// try is one try to store an event. One whose outcome is not known is settled, so that it is in the stream once.
func (o *output) try(ctx context.Context, journal *runevent.Writer, event runevent.Event, sent bool) error {
	bounded, cancel := context.WithTimeout(ctx, outputAppend)
	defer cancel()
	if !sent {
		_, _, err := journal.Append(bounded, event)
		return err
	}
	_, _, err := journal.Settle(bounded)
	return err
}
