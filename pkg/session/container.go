package session

import (
	"encoding/json"
	"strings"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/internal/jsonwalk"
)

// inContainer is MessageIn for a container that is written as EncodeObject writes it, without reflection: a long input asks
// for each of a container's messages. It gives up on anything else, which is for encoding/json to understand.
func inContainer(container []byte, index int) (json.RawMessage, bool) {
	c := jsonwalk.Over(container)
	var found json.RawMessage
	version := int64(0)
	ok := members(&c, []string{"v", "message", "step"}, func(key string) {
		switch key {
		case "v":
			version, _ = c.Int()
		case "message":
			if value := c.Value(); index == 0 {
				found = value
			}
		case "step":
			if inline := inStep(&c, index); found == nil {
				found = inline
			}
		}
	})
	if !ok || !c.End() || version != ObjectVersion || found == nil || found[0] == 'n' {
		return nil, false
	}
	return found, true
}

// inStep returns the message that a step holds inline at index.
func inStep(c *jsonwalk.Cursor, index int) (found json.RawMessage) {
	members(c, []string{"messages"}, func(string) {
		c.Array()
		for i := 0; c.Element(); i++ {
			members(c, []string{"ref", "inline"}, func(key string) {
				value := c.Value()
				var ref cas.MessageRef
				switch {
				case key == "ref" && (value == nil || json.Unmarshal(value, &ref) != nil):
					c.Fail()
				case key == "inline" && i == index:
					found = value
				}
			})
		}
	})
	return found
}

// members calls read with those of the keys of an object that are known, and passes over the others. A key given twice, or one
// that encoding/json would take for a known one, makes the cursor fail.
func members(c *jsonwalk.Cursor, known []string, read func(key string)) bool {
	if !c.Object() {
		return false
	}
	seen := 0
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		which := -1
		for i, name := range known {
			if strings.EqualFold(name, jsonwalk.View(key)) {
				which = i
			}
		}
		switch {
		case which < 0:
			c.Value()
		case known[which] != string(key) || seen&(1<<which) != 0:
			c.Fail()
		default:
			seen |= 1 << which
			read(known[which])
		}
	}
	return true
}
