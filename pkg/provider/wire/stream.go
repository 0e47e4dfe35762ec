package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// Decoder turns one protocol's events into a message. It is used by one goroutine for one response.
type Decoder interface {
	// Event reads one event. done says that it was the terminal one: nothing after it is read. An error ends the call:
	// a *StreamError when the provider reports one, any other when the event cannot be read.
	Event(event Event) (done bool, err error)
	// End says how the response ended, as far as it has come.
	End() End
}

// End is how a response ended.
type End struct {
	// Complete says that the protocol's sign of completion was seen.
	Complete bool
	// Stop and Raw are the stop reason in our word and in the provider's.
	Stop message.StopReason
	Raw  string
	// Class is set when the stop reason is a failure, such as a refusal.
	Class provider.Class
	// Code is a machine word that says more about Class.
	Code string
}

// StreamError is an error that the provider reports inside a stream.
type StreamError struct{ Raw []byte }

func (e *StreamError) Error() string { return "the provider reported an error inside its stream" }

// ErrMalformedEvent is returned when an event of a stream cannot be read.
var ErrMalformedEvent = errors.New("malformed event in the provider's stream")

// Decode reads an event's JSON into a pointer. Fields of another type than expected are left as they are, since servers
// add to the protocols in their own ways; what is no JSON is ErrMalformedEvent.
func Decode(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var mismatch *json.UnmarshalTypeError
	if err == nil || errors.As(err, &mismatch) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrMalformedEvent, err)
}

var errNoEnd = errors.New("the stream ended without its terminal event")

// Call is what Stream needs of an adapter besides the request.
type Call struct {
	Request provider.Request
	OnDelta func(provider.Delta)
	// Send builds the request within ctx and sends it through the Client's HTTP client, once.
	Send func(ctx context.Context) (*http.Response, error)
	// Decoder returns the protocol's decoder; it puts what it reads into the assembly.
	Decoder func(*Assembly) Decoder
}

// Stream runs one model call to its end. It implements provider.Streamer's contract for an adapter.
func (c *Client) Stream(ctx context.Context, in Call) (provider.Response, error) {
	x := &exchange{client: c, request: in.Request,
		call:  &call{guard: in.Request.Guard, hook: in.Request.CallerHook},
		meter: provider.UsageMeter{API: in.Request.Model.API}}
	x.assembly = newAssembly(func(d provider.Delta) {
		d.At = c.now()
		in.OnDelta(d)
	})
	if err := ctx.Err(); err != nil {
		return provider.Response{}, x.fail(ctx, err)
	}
	resp, err := in.Send(withCall(ctx, x.call))
	if err != nil {
		return provider.Response{}, x.fail(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	x.decoder = in.Decoder(x.assembly)
	if err := x.read(ctx, resp.Body); err != nil {
		return provider.Response{}, x.fail(ctx, err)
	}
	return x.response(ctx)
}

// exchange is the state of one Stream.
type exchange struct {
	client   *Client
	request  provider.Request
	call     *call
	meter    provider.UsageMeter
	assembly *Assembly
	decoder  Decoder
}

// read feeds the events to the decoder until the terminal one, the end of the stream or an error.
func (x *exchange) read(ctx context.Context, body io.Reader) error {
	events := NewEvents(body)
	for {
		event, err := events.Next()
		if ctxErr := ctx.Err(); ctxErr != nil {
			return ctxErr
		}
		if err != nil {
			// What breaks after the completion sign breaks nothing: some servers end no other way.
			if x.decoder.End().Complete {
				return nil
			}
			if errors.Is(err, io.EOF) {
				return errNoEnd
			}
			return err
		}
		x.meter.Add(event.Data)
		done, err := x.decoder.Event(event)
		if err != nil {
			return err
		}
		if done {
			return nil
		}
	}
}

// response judges a stream that was read to its end.
func (x *exchange) response(ctx context.Context) (provider.Response, error) {
	end := x.decoder.End()
	if !end.Complete {
		return provider.Response{}, x.fail(ctx, errNoEnd)
	}
	blocks, broken := x.assembly.finish()
	usage := x.meter.Usage()
	stop := end.Stop
	switch {
	case end.Class != "":
		return provider.Response{}, x.failEnd(end.Class, end)
	case provider.SilentOverflow(x.request.Model, stop, usage):
		return provider.Response{}, x.failEnd(provider.ClassOverflow, end)
	case broken:
		// A call that cannot be read must not run, not even with other calls beside it: the message counts as cut.
		stop = message.StopLength
	case stop == message.StopStop && hasCall(blocks):
		stop = message.StopToolUse
	case stop == message.StopToolUse && !hasCall(blocks):
		stop = message.StopStop
	}
	m := x.message(blocks, stop)
	m.Usage = usage
	return provider.Response{Message: m, ResponseID: x.assembly.responseID, RawStopReason: end.Raw,
		HTTPStatus: x.call.status}, nil
}

func (x *exchange) message(blocks []message.Block, stop message.StopReason) message.Message {
	model := x.request.Model
	return message.Message{Role: message.RoleAssistant, Content: message.Blocks(uniqueCalls(blocks)...),
		Provider: model.Provider, API: string(model.API), Model: model.ID, StopReason: stop}
}

func hasCall(blocks []message.Block) bool {
	for i := range blocks {
		if blocks[i].Type == message.BlockToolCall {
			return true
		}
	}
	return false
}

// uniqueCalls makes call ids unique within the message: results are paired by them.
func uniqueCalls(blocks []message.Block) []message.Block {
	seen := map[string]bool{}
	for i := range blocks {
		if blocks[i].Type != message.BlockToolCall {
			continue
		}
		id := blocks[i].ID
		for seen[id] || id == "" {
			id += "x"
		}
		seen[id] = true
		blocks[i].ID = id
	}
	return blocks
}
