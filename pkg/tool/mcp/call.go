package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
)

// The outcomes of an exchange, as tool.Audit defines them.
const (
	outcomeOK        = "ok"
	outcomeToolError = "toolError"
	outcomeTimeout   = "timeout"
	outcomeTransport = "transport"
	outcomeProtocol  = "protocol"
)

const methodCall = "tools/call"

// maxServerText bounds what a server says about a failure, in bytes.
const maxServerText = 2 << 10

// errCallTimeout is the cause of a call's context when its time is over.
var errCallTimeout = errors.New("call timeout")

// tokens numbers the calls of this process: progress tokens must not repeat within a session.
var tokens atomic.Uint64

// Call implements tool.Set.
func (s *Set) Call(ctx context.Context, call tool.Call, onProgress func(text string)) (tool.Result, error) {
	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}
	e := s.byName[call.Name]
	if e == nil {
		return refusal(tool.Audit{}, fmt.Sprintf("There is no tool named %q.", message.Beginning(call.Name, maxRemoteName))), nil
	}
	audit := tool.Audit{Server: e.definition.Server, Tool: e.definition.RemoteName}
	if e.server == nil {
		return refusal(audit, fmt.Sprintf("The tool server %q is not configured any more. The call was not run.", e.definition.Server)), nil
	}
	arguments, complaint := e.arguments(call.Arguments)
	if complaint != "" {
		return refusal(audit, complaint), nil
	}
	c := &invocation{
		entry: e, server: e.server, arguments: arguments, audit: audit, maxImageBytes: s.opts.MaxImageBytes,
		readOn: func(offset int) string { return tool.ReadOn(s.opts.ReadOn, call.ID, offset) },
	}
	return c.run(ctx, onProgress)
}

// refusal is the result of a call that was not sent.
func refusal(audit tool.Audit, text string) tool.Result {
	audit.Outcome = outcomeToolError
	return tool.Result{Content: message.Text(text), IsError: true, Audit: audit}
}

// arguments normalises and checks what the model wrote.
func (e *entry) arguments(raw json.RawMessage) (json.RawMessage, string) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	if !json.Valid(raw) || bytes.TrimSpace(raw)[0] != '{' {
		return nil, "The arguments are not a JSON object. The call was not run."
	}
	e.once.Do(func() { e.checker = newChecker(e.definition.Parameters) })
	if complaints := e.checker.complaints(raw); len(complaints) > 0 {
		text := "The arguments do not fit the tool's parameters. The call was not run. Correct them and call again:\n- " + strings.Join(complaints, "\n- ")
		return nil, message.Beginning(strings.ToValidUTF8(text, "\uFFFD"), maxServerText)
	}
	return raw, ""
}

// invocation is one call on its way.
type invocation struct {
	entry         *entry
	server        *server
	arguments     json.RawMessage
	audit         tool.Audit
	maxImageBytes int
	// watcher is where the call's notifications go.
	watcher *progress
	// readOn says how a model reads on in the result, from an offset.
	readOn  func(offset int) string
	details details
}

// run sends the call, once more if it was lost and may be repeated, within the server's call timeout.
func (c *invocation) run(ctx context.Context, onProgress func(string)) (tool.Result, error) {
	c.audit.Method = methodCall
	started := time.Now()
	bounded, cancelTimeout := context.WithTimeoutCause(ctx, c.server.cfg.CallTimeout, errCallTimeout)
	defer cancelTimeout()
	running, cancel := context.WithCancelCause(bounded)
	defer cancel(nil)
	token := fmt.Sprintf("call-%d", tokens.Add(1))
	watcher := &progress{cancel: cancel, report: onProgress}
	c.watcher = watcher
	if err := c.server.begin(token, watcher); err != nil {
		return c.fail(failure{outcome: outcomeTransport, text: "The run is ending. The call was not run."}, started), nil
	}
	defer c.server.finish(token, watcher)
	again := ""
	for attempt := 0; ; attempt++ {
		result, failed := c.attempt(running, cancel, token, again)
		if failed == nil {
			return c.succeed(result, started), nil
		}
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		if attempt == 0 && failed.resend != "" && running.Err() == nil {
			again = failed.resend
			continue
		}
		return c.fail(*failed, started), nil
	}
}

// attempt sends the call once; again is why it is not the first time.
func (c *invocation) attempt(ctx context.Context, cancel context.CancelCauseFunc, token, again string) (wireResult, *failure) {
	session, err := c.server.open(ctx)
	if err != nil {
		return wireResult{}, c.unopened(ctx, err)
	}
	c.details.Resent = again
	ex := &exchange{limit: c.server.cfg.maxResponse(c.server.opts), cancel: cancel, call: c.watcher}
	params := &sdk.CallToolParams{Name: c.entry.definition.RemoteName, Arguments: c.arguments, Meta: sdk.Meta{metaLogLevel: logLevel}}
	for field, value := range c.server.opts.Trace(ctx) {
		params.Meta[field] = value
	}
	params.SetProgressToken(token)
	decoded, _ := session.CallTool(watch(ctx, ex), params) // what went wrong is in the exchange; the error is prose
	seen := ex.end()
	c.audit.Bytes = max(c.audit.Bytes, seen.read)
	result, ok := wire(seen.result(), decoded)
	if ok {
		return result, c.unfinished(result)
	}
	failed := c.judge(ctx, seen)
	if failed.lost || seen.ended {
		c.server.lose(session)
	}
	return wireResult{}, failed
}

// wire is the result as it was sent or, if that was not seen, as the SDK has it.
func wire(raw json.RawMessage, decoded *sdk.CallToolResult) (wireResult, bool) {
	var result wireResult
	if raw != nil && json.Unmarshal(raw, &result) == nil {
		return result, true
	}
	if decoded == nil {
		return wireResult{}, false
	}
	raw, err := json.Marshal(decoded)
	if err != nil {
		return wireResult{}, false
	}
	result = wireResult{}
	return result, json.Unmarshal(raw, &result) == nil
}

// unfinished is the failure of a tool that wants to be asked again with a person's answers, which a run has not.
func (c *invocation) unfinished(r wireResult) *failure {
	if r.ResultType != "input_required" && !present(r.InputRequests) {
		return nil
	}
	return &failure{outcome: outcomeProtocol, text: "The tool asks for input from a person, which a run cannot give. The call was not finished. Try without what needs the input."}
}

func (c *invocation) succeed(r wireResult, started time.Time) tool.Result {
	limit := c.server.cfg.MaxResultBytes
	conv := converter{redact: c.server.redact, limit: limit, imageBytes: c.maxImageBytes, isError: r.IsError, readOn: c.readOn}
	content, cut := conv.convert(r)
	c.details.StructuredContent, c.details.Truncated = r.StructuredContent, cut
	c.audit.Outcome, c.audit.Bytes, c.audit.Truncated = outcomeOK, conv.bytes, cut != nil
	if r.IsError {
		c.audit.Outcome = outcomeToolError
	}
	c.audit.Duration = time.Since(started)
	return tool.Result{Content: content, IsError: r.IsError, Details: c.details.encode(c.server.redact, limit), Audit: c.audit, Whole: conv.whole}
}

func (c *invocation) fail(f failure, started time.Time) tool.Result {
	c.details.HTTPStatus, c.details.Truncated = f.status, f.truncated
	c.audit.Outcome, c.audit.Truncated = f.outcome, f.truncated != nil
	c.audit.Duration = time.Since(started)
	text := c.server.redact.short(f.text, max(maxServerText, len("…")))
	return tool.Result{Content: message.Text(text), IsError: true, Details: c.details.encode(c.server.redact, c.server.cfg.MaxResultBytes), Audit: c.audit}
}

// rejected says that an error status means that the request was not acted on.
func rejected(status int) bool {
	return status >= 400 && status < 500 && status != http.StatusRequestTimeout
}
