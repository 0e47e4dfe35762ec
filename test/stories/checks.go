package stories

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// Streams are the raw entries of each of the session's streams, chained and verified.
func (c *Telling) Streams() map[string][][]byte {
	c.t.Helper()
	found, err := c.stage.Log.Streams(c.t.Context(), c.Namespace, c.UID)
	c.Must(err)
	out := map[string][][]byte{}
	for _, last := range found {
		previous := runevent.Head{}
		c.Must(c.stage.Log.Read(c.t.Context(), last.Stream, 0, func(record runevent.Record) error {
			if err := runevent.Verify(previous, record); err != nil {
				return fmt.Errorf("%s #%d: %w", last.Stream.Key, record.Head.Sequence, err)
			}
			previous = record.Head
			out[string(last.Stream.Class)+"/"+last.Stream.Key] = append(out[string(last.Stream.Class)+"/"+last.Stream.Key], bytes.Clone(record.Raw))
			return nil
		}))
	}
	return out
}

// Brief shows the streams, a line for each entry.
func (c *Telling) Brief() string {
	var out strings.Builder
	for key, raws := range c.Streams() {
		for _, raw := range raws {
			entry, err := runevent.Decode(raw)
			c.Must(err)
			e := entry.Event
			fmt.Fprintf(&out, "%s #%d %s %s %s %s %s attempt %d\n", key, entry.Sequence, entry.CreatedAt.Format("15:04:05.000"), e.Type, e.Kind, e.CallID, e.Reason, e.Attempt)
		}
	}
	return out.String()
}

var noteNumber = regexp.MustCompile(`note \d+ written`)

// History is the messages of each agent in short, what differs between two tellings taken out.
func (c *Telling) History() map[string][]string {
	c.t.Helper()
	scope := cas.Scope{Namespace: c.Namespace, Session: c.UID}
	out := map[string][]string{}
	for key := range c.Streams() {
		class, agentKey, _ := strings.Cut(key, "/")
		if class != string(runevent.ClassRun) {
			continue
		}
		state, err := agent.LoadState(c.t.Context(), c.stage.Log, c.stage.Store, runevent.Stream{Class: runevent.ClassRun, Namespace: c.Namespace, Session: c.UID, Key: agentKey})
		c.Must(err)
		if state.Live() {
			c.t.Errorf("%s: %s: the log has a live run", c.Namespace, agentKey)
		}
		raws, err := cas.NewResolver(c.stage.Store, session.MessageIn, cas.ResolverOptions{}).Messages(c.t.Context(), scope, state.History)
		c.Must(err)
		who, _, _ := strings.Cut(agentKey, "-")
		for _, raw := range raws {
			m, err := message.Decode(raw)
			c.Must(err)
			out[who] = append(out[who], c.short(m))
		}
	}
	return out
}

func (c *Telling) short(m message.Message) string {
	text := fmt.Sprintf("%s %s %s", m.Role, m.ToolName, m.PlainText())
	for _, call := range m.ToolCalls() {
		text += " calls " + call.Name
	}
	text = noteNumber.ReplaceAllString(strings.ReplaceAll(text, c.Namespace, "NS"), "note written")
	return text[:min(len(text), 200)]
}

// NothingIsLost holds that what the log had is still there, byte for byte.
func (c *Telling) NothingIsLost(before map[string][][]byte) {
	c.t.Helper()
	after := c.Streams()
	for key, raws := range before {
		if len(after[key]) < len(raws) || !slices.EqualFunc(raws, after[key][:len(raws)], bytes.Equal) {
			c.t.Errorf("%s: %s: of %d entries that were in the log some are missing or others now:\n%s", c.Namespace, key, len(raws), c.Brief())
		}
	}
}

// unknownEffect begins the result of a call that was interrupted.
const unknownEffect = "The tool call was interrupted and its effect is unknown."

// HistoryIs holds that the history is the undisturbed one, but for calls whose effect is told as unknown.
func (c *Telling) HistoryIs(want map[string][]string) {
	c.t.Helper()
	got := c.History()
	for who, messages := range got {
		for i, m := range messages {
			for _, name := range []string{"tools__append_note", "codemode"} {
				if strings.HasPrefix(m, "toolResult "+name+" "+unknownEffect) && i < len(want[who]) && strings.HasPrefix(want[who][i], "toolResult "+name+" ") {
					messages[i] = want[who][i]
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("%s: history (-undisturbed +disturbed):\n%s\n%s", c.Namespace, diff, c.Brief())
	}
}

// NothingIsDoubled holds that each note was written at most once, and exactly once if its call has the tool's result.
func (c *Telling) NothingIsDoubled() {
	c.t.Helper()
	written := map[string]int{}
	for _, effect := range c.stage.Tools.Effects(c.Namespace) {
		if strings.HasSuffix(effect.Text, c.Namespace) { // and not one whose number only begins like this one's
			written[effect.Text]++
		}
	}
	for text, times := range written {
		if times > 1 {
			c.t.Errorf("%q was written %d times:\n%s", text, times, c.Brief())
		}
	}
	results := 0
	for _, messages := range c.History() {
		for _, m := range messages {
			if strings.HasPrefix(m, "toolResult tools__append_note") && strings.Contains(m, "note written") {
				results++
			}
		}
	}
	if results > len(written) {
		c.t.Errorf("%s: %d calls have the result of a note, %d notes were written", c.Namespace, results, len(written))
	}
}
