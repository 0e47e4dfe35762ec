package builtin

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
)

// The sizes of one page, in bytes. The largest leaves room for the line that ends it.
const (
	defaultPage = 30_000
	maxPage     = 60_000
)

// readResult returns a page of an earlier result that was cut.
func (s *set) readResult(ctx context.Context, call tool.Call) (tool.Result, error) {
	args := struct {
		CallID string `json:"callId"`
		Offset int64  `json:"offset"`
		Limit  int64  `json:"limit"`
	}{Limit: defaultPage}
	if complaint := arguments(call, &args); complaint != "" {
		return failed("%s", complaint), nil
	}
	if args.Limit < 1 || args.Limit > maxPage || args.Offset < 0 {
		return failed("limit must be 1 to %d bytes, and offset 0 or more.", maxPage), nil
	}
	text, err := s.host.Result(ctx, args.CallID)
	switch {
	case errors.Is(err, agent.ErrNoResult):
		return failed("No earlier call has the id %.128q. Use the id in the mark of a result that was cut.", args.CallID), nil
	case errors.Is(err, agent.ErrNotCut):
		return failed("Nothing was cut from the result of call %.128q: all of it is in the conversation.", args.CallID), nil
	case err != nil:
		return unread(ctx, "The result")
	case args.Offset >= int64(len(text)):
		return failed("The result has %d bytes: there is nothing at offset %d.", len(text), args.Offset), nil
	}
	start, end := page(text, int(args.Offset), int(args.Limit))
	mark := fmt.Sprintf("\n\n[Bytes %d to %d of %d.", start, end, len(text))
	if end < len(text) {
		mark += fmt.Sprintf(" The next offset is %d.]", end)
	} else {
		mark += " This is the end.]"
	}
	return tool.Result{Content: message.Text(text[start:end] + mark)}, nil
}

// page moves the borders of a page between characters: its start back, its end back, but by at least one character on.
func page(text string, offset, limit int) (start, end int) {
	start = offset
	for start > 0 && !utf8.RuneStart(text[start]) {
		start--
	}
	end = start + len(message.Beginning(text[start:], limit))
	if end == start {
		_, size := utf8.DecodeRuneInString(text[start:])
		end = start + size
	}
	return start, end
}
