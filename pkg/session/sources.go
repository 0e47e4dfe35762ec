package session

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/agentloop/agentloop/pkg/projection"
)

// SourceRun is one row of a source map, or Count consecutive history rows whose indexes rise by one: a long history
// takes one run instead of thousands of rows.
type SourceRun struct {
	projection.Source
	Count int
}

// PackSources joins consecutive history rows.
func PackSources(sources []projection.Source) []SourceRun {
	var runs []SourceRun
	for _, source := range sources {
		if n := len(runs); n > 0 && source.Type == projection.SourceHistory {
			if last := &runs[n-1]; last.Type == projection.SourceHistory && last.MessageIndex+last.Count == source.MessageIndex {
				last.Count++
				continue
			}
		}
		runs = append(runs, SourceRun{Source: source, Count: 1})
	}
	return runs
}

// UnpackSources gives back the source map: one row for each message.
func UnpackSources(runs []SourceRun) []projection.Source {
	var sources []projection.Source
	for _, run := range runs {
		for i := range run.Count {
			source := run.Source
			source.MessageIndex += i
			sources = append(sources, source)
		}
	}
	return sources
}

// MarshalJSON writes the row, and "count" when it stands for more than one.
func (r SourceRun) MarshalJSON() ([]byte, error) {
	raw := r.AppendJSON(nil)
	if r.Count == 1 {
		return raw, nil
	}
	raw = append(raw[:len(raw)-1], `,"count":`...)
	return append(strconv.AppendInt(raw, int64(r.Count), 10), '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *SourceRun) UnmarshalJSON(raw []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	r.Count = 1
	if count, ok := fields["count"]; ok {
		if err := json.Unmarshal(count, &r.Count); err != nil || r.Count < 1 {
			return fmt.Errorf("source run with count %s", count)
		}
		delete(fields, "count")
	}
	row, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	if err := r.Source.UnmarshalJSON(row); err != nil {
		return err
	}
	if r.Count > 1 && r.Type != projection.SourceHistory {
		return fmt.Errorf("source run of type %s", r.Type)
	}
	return nil
}
