package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/term"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/viewer"
)

// clock is how times of entries are written.
const clock = "15:04:05.000"

// At is a time of an entry in a zone.
func At(t viewer.Time, zone *time.Location) string {
	if t == 0 {
		return "time unknown"
	}
	return t.Go().In(zone).Format(clock)
}

// Took is how long something took; empty when it has not ended, or began at no known time.
func Took(from, to viewer.Time) string {
	if from == 0 || to == 0 || to < from {
		return ""
	}
	d := to.Go().Sub(from.Go())
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// EventCells is an entry as a row: number, time, agent, what, state, how long, tokens.
func EventCells(e viewer.Entry, zone *time.Location) []term.Cell {
	run := ""
	if e.Run != nil {
		run = e.Run.Name
	}
	return []term.Cell{
		{Text: fmt.Sprint(e.Sequence), Colour: term.Faint}, {Text: At(e.CapturedAt, zone), Colour: term.Faint}, {Text: e.Agent}, {Text: run},
		{Text: e.Type}, {Text: e.Title}, {Text: orNone(e.Status), Colour: statusColour(e.Status)},
		{Text: orNone(Took(began(e), e.EndedAt))}, {Text: entryTokens(e)},
	}
}

// EventHeaders are the headers of EventCells.
func EventHeaders() []string {
	return []string{"#", "TIME", "AGENT", "RUN", "TYPE", "WHAT", "STATUS", "TOOK", "TOKENS"}
}

// EventLine is an entry in a line of its own, for lists that go on.
func EventLine(e viewer.Entry, zone *time.Location, paint term.Paint) string {
	line := fmt.Sprintf("%s %s %-12s %s", paint.As(term.Faint, fmt.Sprintf("%5d %s", e.Sequence, At(e.CapturedAt, zone))), e.Agent, e.Type, e.Title)
	if e.Status != "" {
		line += " " + paint.As(statusColour(e.Status), e.Status)
	}
	if took := Took(began(e), e.EndedAt); took != "" {
		line += " in " + took
	}
	if text := entryTokens(e); text != none && e.Type == viewer.TypeOutput {
		line += " (" + text + ")"
	}
	return line
}

func began(e viewer.Entry) viewer.Time {
	if e.StartedAt != 0 {
		return e.StartedAt
	}
	return e.CapturedAt
}

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}

func statusColour(status string) term.Colour {
	switch status {
	case "failed", "rejected", "error", "unknown":
		return term.Bad
	case "unfinished", "cancelled", "pending", "running", "declared":
		return term.Attention
	case "completed":
		return term.Good
	}
	return term.Plain
}

// entryTokens is what a provider reported for a response: input, output.
func entryTokens(e viewer.Entry) string {
	if e.Usage == nil {
		return none
	}
	var parts []string
	for _, part := range []struct {
		n    *int64
		what string
	}{{e.Usage.Input, "in"}, {e.Usage.CacheRead, "cached"}, {e.Usage.Output, "out"}} {
		if part.n != nil {
			parts = append(parts, Grouped(*part.n)+" "+part.what)
		}
	}
	return orNone(strings.Join(parts, ", "))
}

// Notices are what is wrong with the records, a line each.
func Notices(notices []viewer.Notice, paint term.Paint) string {
	var out strings.Builder
	for _, n := range notices {
		fmt.Fprintf(&out, "%s %s (%s)\n", paint.As(term.Attention, "notice:"), n.Message, n.Code)
	}
	return out.String()
}

// Message is a message of the conversation. Long arguments and results are cut unless everything is wanted.
func Message(m viewer.HistoryMessage, zone *time.Location, all bool, paint term.Paint) string {
	head := paint.As(term.Strong, fmt.Sprintf("#%d %s", m.Index, who(m.Role, m.Message)))
	var more []string
	if m.Run != nil && m.Run.Name != "" {
		more = append(more, m.Run.Name)
	}
	if m.RecordedAt != 0 {
		more = append(more, m.RecordedAt.Go().In(zone).Format("2006-01-02 15:04:05"))
	}
	if len(more) > 0 {
		head += paint.As(term.Faint, "  "+strings.Join(more, ", "))
	}
	return head + "\n" + body(m.Message, m.Unavailable, all, paint)
}

func who(role string, m *viewer.Message) string {
	if role == "toolResult" && m != nil {
		if m.IsError {
			return "result of " + m.ToolName + " (an error)"
		}
		return "result of " + m.ToolName
	}
	return role
}

// maxShown is how many characters of arguments, results and thoughts are shown of each unless everything is wanted.
const maxShown = 400

func body(m *viewer.Message, unavailable string, all bool, paint term.Paint) string {
	if m == nil {
		return indent(paint.As(term.Bad, "not available: "+unavailable))
	}
	var parts []string
	for _, block := range m.Content {
		switch block.Type {
		case "text":
			text := block.Text
			if m.Role == "toolResult" && !all {
				text = shorten(text)
			}
			parts = append(parts, text)
		case "thinking":
			text := block.Thinking
			if block.Redacted {
				text = "(kept by the provider)"
			}
			if !all {
				text = shorten(text)
			}
			parts = append(parts, paint.As(term.Faint, "thinks: "+text))
		case "toolCall":
			arguments := compact(block.Arguments)
			if !all {
				arguments = shorten(arguments)
			}
			parts = append(parts, paint.As(term.Link, "calls "+block.Name)+" "+arguments)
		case "image":
			parts = append(parts, "(an image, "+block.MediaType+")")
		default:
			parts = append(parts, "("+block.Type+")")
		}
	}
	if m.ErrorMessage != "" {
		parts = append(parts, paint.As(term.Bad, "no answer: "+m.ErrorMessage))
	}
	if len(parts) == 0 {
		parts = []string{paint.As(term.Faint, "(empty)")}
	}
	return indent(strings.Join(parts, "\n"))
}

func shorten(text string) string {
	runes := []rune(text)
	if len(runes) <= maxShown {
		return text
	}
	return fmt.Sprintf("%s… (%d more characters, --full shows them)", string(runes[:maxShown]), len(runes)-maxShown)
}

func compact(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return string(raw)
	}
	return out.String()
}

// Input is one model input: prompt, tools, and each message with where it came from.
func Input(d *viewer.Detail, zone *time.Location, all bool, paint term.Paint) string {
	in := d.Input
	f := fields{}
	f.colour("Input", d.Entry.ID, term.Strong)
	f.add("Time", At(d.Entry.CapturedAt, zone))
	f.add("Status", d.Entry.Status)
	if d.Entry.Run != nil {
		f.add("Run", fmt.Sprintf("%s, turn %d", d.Entry.Run.Name, d.Entry.Turn))
	}
	f.add("Purpose", in.Purpose)
	f.add("Model", in.Model.Provider+"/"+in.Model.ID)
	if in.Parameters.MaxTokens > 0 {
		f.add("Output cap", Grouped(in.Parameters.MaxTokens)+" tokens")
	}
	f.add("Reasoning", in.Parameters.Reasoning)
	if in.Verified {
		f.colour("Verified", "its parts make exactly the bytes that were recorded before it was sent", term.Good)
	} else {
		f.colour("Verified", "NO: its parts do not make the bytes that were recorded", term.Bad)
	}
	var tools []string
	for _, tool := range in.Tools {
		tools = append(tools, tool.Name)
	}
	f.add("Tools", strings.Join(tools, ", "))
	var out strings.Builder
	out.WriteString(f.table.String(paint))
	if s := in.System; s != nil {
		out.WriteString("\n" + paint.As(term.Strong, "System prompt") + "\n")
		if s.Provenance != "verified" {
			out.WriteString("  " + paint.As(term.Attention, "where it comes from cannot be proven") + "\n")
		}
		if len(s.Sections) == 0 {
			out.WriteString(indent(cutUnless(all, s.Text)))
		}
		for _, section := range s.Sections {
			if section.ID != "" {
				out.WriteString("  " + paint.As(term.Faint, "["+section.ID+"]") + "\n")
			}
			out.WriteString(indent(cutUnless(all, section.Text)))
		}
	}
	out.WriteString("\n" + paint.As(term.Strong, "Messages") + "\n")
	for i := range in.Messages {
		m := &in.Messages[i]
		fmt.Fprintf(&out, "%s  %s\n", paint.As(term.Strong, fmt.Sprintf("[%d] %s", m.Index, who(m.Role, m.Message))), paint.As(term.Faint, "← "+source(m)))
		out.WriteString(body(m.Message, m.Unavailable, all, paint))
	}
	return out.String()
}

func cutUnless(all bool, text string) string {
	if all {
		return text
	}
	return shorten(text)
}

// source says where a message of an input came from.
func source(m *viewer.InputMessage) string {
	s := m.Source
	text := "source unknown"
	if s != nil {
		switch s.Type {
		case "history":
			text = fmt.Sprintf("history #%d", s.MessageIndex)
		case "compaction":
			text = fmt.Sprintf("summary that stands for the messages before #%d", s.SummarizedBefore)
		case "runtime-context":
			text = fmt.Sprintf("runtime context for #%d", s.MessageIndex)
		case "tool-repair":
			text = "stands in for the missing result of call " + s.ToolCallID
		default:
			text = s.Type
		}
	}
	if m.SkillExpansion != nil {
		var ids []string
		for _, skill := range m.SkillExpansion.Skills {
			ids = append(ids, skill.ID)
		}
		text += ", with skills in front: " + strings.Join(ids, ", ")
	}
	return text
}
