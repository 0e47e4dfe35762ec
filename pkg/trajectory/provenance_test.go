package trajectory

import (
	"context"
	"fmt"
	"testing"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

func TestProvenance(t *testing.T) {
	sections := []projection.Section{{Name: "a", Text: "one"}, {Name: "b", Text: "two"}}
	prompt := projection.RenderSystem(sections)
	admit := func(sections ...projection.Section) (out []session.AdmittedSection) {
		for _, s := range sections {
			out = append(out, session.AdmittedSection{ID: s.Name, Digest: cas.Of([]byte(s.Text))})
		}
		return out
	}
	cases := map[string]struct {
		admitted []session.AdmittedSection
		rendered []string
		prompt   string
		want     string
	}{
		"the sections make the prompt":               {admit(sections...), []string{"a", "b"}, prompt, ProvenanceVerified},
		"admitted in another order":                  {admit(sections[1], sections[0]), []string{"a", "b"}, prompt, ProvenanceVerified},
		"rendered in another order":                  {admit(sections...), []string{"b", "a"}, prompt, ProvenanceUnavailable},
		"one was not rendered":                       {admit(sections...), []string{"a"}, prompt, ProvenanceUnavailable},
		"one was not admitted":                       {admit(sections[0]), []string{"a", "b"}, prompt, ProvenanceUnavailable},
		"one was admitted with another text":         {admit(sections[0], projection.Section{Name: "b", Text: "three"}), []string{"a", "b"}, prompt, ProvenanceUnavailable},
		"one is not stored":                          {admit(append(sections, projection.Section{Name: "c", Text: "x"})...), []string{"a", "b", "c"}, prompt, ProvenanceUnavailable},
		"nothing was recorded":                       {nil, nil, prompt, ProvenanceUnavailable},
		"the prompt is another than the sections of": {admit(sections...), []string{"a", "b"}, prompt + " and more", ProvenanceUnavailable},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			record := session.AssemblyRecord{Admitted: session.Admitted{Sections: c.admitted}, Rendered: session.Rendered{SectionIDs: c.rendered}}
			got := provenance(record, sections, c.prompt)
			if got.Provenance != c.want || got.Text != c.prompt {
				t.Errorf("got %+v, want %s", got, c.want)
			}
			if shown := len(got.Sections) > 0; shown != (c.want == ProvenanceVerified) || (got.Reason == "") != shown {
				t.Errorf("sections %v with reason %q", got.Sections, got.Reason)
			}
		})
	}
}

// countingLog counts the reads of a long stream.
type countingLog struct {
	records []runevent.Record
	reads   int
}

func (l *countingLog) Streams(context.Context, string, string) ([]runevent.Record, error) {
	return nil, nil
}

func (l *countingLog) Read(_ context.Context, _ runevent.Stream, after int64, fn func(runevent.Record) error) error {
	l.reads++
	for _, r := range l.records[min(int(after), len(l.records)):] {
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

func TestWindow(t *testing.T) {
	stream := runevent.Stream{Class: runevent.ClassRun, Namespace: "n", Session: "s", Key: "main"}
	log := &countingLog{}
	add := func(n int) {
		for range n {
			raw := fmt.Appendf(nil, `{"n":%d}`, len(log.records)+1)
			log.records = append(log.records, runevent.Record{Stream: stream, Head: runevent.HeadOf(int64(len(log.records)+1), 0, raw), Raw: raw})
		}
	}
	add(3*chunkLength + 5)
	w := newWindow(log)
	get := func(sequence int64, want bool) {
		t.Helper()
		r, ok, err := w.record(t.Context(), stream, recordAt{sequence: sequence})
		if err != nil || ok != want || ok && r.Head.Sequence != sequence {
			t.Errorf("record %d: %+v, %v, %v", sequence, r.Head, ok, err)
		}
	}
	for i := range log.records {
		get(int64(i+1), true)
	}
	if log.reads != 4 {
		t.Errorf("reading in order took %d reads, want one for each of 4 chunks", log.reads)
	}
	get(chunkLength, true)
	get(2, true)
	if log.reads != 4 {
		t.Errorf("going back took %d more reads", log.reads-4)
	}
	end := int64(len(log.records))
	get(end+1, false)
	add(1)
	get(end+1, true) // appended since its chunk was read
	add((windowChunks + 2) * chunkLength)
	for i := range log.records {
		get(int64(i+1), true)
	}
	if len(w.chunks) > windowChunks || len(w.used) != len(w.chunks) {
		t.Errorf("%d chunks are kept, at most %d", len(w.chunks), windowChunks)
	}
	size := 0
	for _, chunk := range w.chunks {
		size += sizeOfChunk(chunk)
	}
	if size != w.bytes {
		t.Errorf("the chunks have %d bytes, counted are %d", size, w.bytes)
	}
}
