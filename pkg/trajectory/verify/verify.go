package verify

import (
	"bufio"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
)

// Version is the version of the export format that is checked.
const Version = 1

// Export checks an export in NDJSON, read from from. progress, when it is not nil, is told now and then how many bytes
// were read. The error is that of reading; whatever is wrong with the export is in the report.
func Export(from io.Reader, progress func(bytes int64)) (Report, error) {
	c := &check{
		lines: &lines{from: bufio.NewReaderSize(from, 256<<10), sum: sha256.New(), progress: progress, next: progressStep},
		seed:  maphash.MakeSeed(), index: map[uint64]int{},
	}
	c.report.Problems = []Problem{}
	err := c.all()
	c.report.Bytes = c.lines.bytes
	c.report.Complete = err == nil && len(c.report.Problems) == 0
	return c.report, err
}

// check is a check under way.
type check struct {
	lines  *lines
	report Report
	seed   maphash.Seed
	// listed are the sums of the index's entries in their order; index leads from an id's sum to a place in it.
	listed []uint64
	index  map[uint64]int
	seen   []bool
	// place is where the next entry is expected to stand in the index.
	place int
	// timed is how many entries of the index have a time; historical are the sums of the older name of the others.
	timed      int
	historical []uint64
	counts     struct{ entries, untimed int64 }
	passed     json.RawMessage
	// begun says that the first line was read, ended that the last one was.
	begun, ended bool
}

// all reads the lines one after the other.
func (c *check) all() error {
	for c.lines.begin() {
		c.report.Lines++
		before, err := c.lines.sum.(encoding.BinaryMarshaler).MarshalBinary() //nolint:forcetypeassert // crypto/sha256 says that it is one
		if err != nil {
			return fmt.Errorf("sum: %w", err)
		}
		if c.ended {
			c.report.problem(c.report.Lines, CodeAfter, "There is something after the last line of the export.")
			return c.lines.err
		}
		err = c.line(before)
		c.lines.rest()
		if c.lines.err != nil {
			return fmt.Errorf("read line %d: %w", c.report.Lines, c.lines.err)
		}
		if c.lines.cut {
			c.report.problem(c.report.Lines, CodeCut, "The last line is cut off: it has no line end.")
			break
		}
		if err != nil {
			c.wrong(err)
		}
		if !c.begun {
			return nil // what is no export has no lines to check
		}
	}
	if c.lines.err != nil {
		return fmt.Errorf("read line %d: %w", c.report.Lines+1, c.lines.err)
	}
	c.end()
	return nil
}

// wrong reports a line that could not be read.
func (c *check) wrong(err error) {
	var known *lineError
	switch {
	case errors.As(err, &known):
		c.report.problem(c.report.Lines, known.code, "%s", known.message)
	case errors.Is(err, errShape):
		c.report.problem(c.report.Lines, CodeType, "The line is JSON, but not one of an export: %v.", err)
	default:
		c.report.problem(c.report.Lines, CodeJSON, "The line is not one JSON object.")
	}
}

// lineError is a problem that ends the reading of a line.
type lineError struct {
	code    Code
	message string
}

func (e *lineError) Error() string { return e.message }

// line reads one line. before is the state of the sum before it.
func (c *check) line(before []byte) error {
	dec := json.NewDecoder(c.lines)
	dec.UseNumber()
	v := &values{dec: dec, passed: c.passed}
	defer func() { c.passed = v.passed }()
	var read reader
	first := true
	err := v.object(func(name string) error {
		if first {
			first = false
			var kind string
			if name != "type" {
				return c.noType(name)
			}
			if err := v.text(&kind); err != nil {
				return err
			}
			var err error
			read, err = c.reader(v, kind, before)
			return err
		}
		return read.member(name)
	})
	if err != nil {
		return err
	}
	if first {
		return c.noType("")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return &lineError{CodeJSON, "The line has more than one JSON value."}
	}
	read.end()
	return nil
}

// reader reads the members of a line behind its type; end is called when all were read.
type reader struct {
	member func(name string) error
	end    func()
}

// noType is what is wrong with a line that does not say what it is.
func (c *check) noType(name string) error {
	switch {
	case c.begun:
		return &lineError{CodeType, "The line does not begin with its type."}
	case name == "resourceSpans":
		return &lineError{CodeFormat, "This is an export as OTLP/JSON. It says in agentloop.export.spans of each line how many spans all lines together have."}
	case name == "schema_version":
		return &lineError{CodeFormat, "This is an export as ATIF. It says in extra.agentloop.export of each line how many lines there are."}
	}
	return &lineError{CodeFormat, "This is no export of a trajectory."}
}

// reader returns what reads a line of the given type.
func (c *check) reader(v *values, kind string, before []byte) (reader, error) {
	switch {
	case !c.begun && kind == "trajectory":
		return c.header(v), nil
	case !c.begun:
		return reader{}, &lineError{CodeFormat, fmt.Sprintf("The first line has the type %.32q, not trajectory.", kind)}
	case kind == "entry":
		return c.entry(v), nil
	case kind == "complete":
		return c.complete(v, before)
	case kind == "trajectory":
		return reader{}, &lineError{CodeType, "A second export begins here."}
	}
	return reader{}, &lineError{CodeType, fmt.Sprintf("The type %.32q is not known.", kind)}
}

// header reads the first line.
func (c *check) header(v *values) reader {
	var notices []uint64
	return reader{end: func() { c.headerEnd(notices) }, member: func(name string) error {
		switch name {
		case "version":
			return v.integer(&c.report.Version)
		case "exportedAt":
			return v.integer(&c.report.ExportedAt)
		case "session":
			return v.object(func(name string) error {
				if name == "id" {
					return v.text(&c.report.Session)
				}
				return v.skip()
			})
		case "counts":
			return v.object(func(name string) error {
				switch name {
				case "entries":
					return v.integer(&c.counts.entries)
				case "untimed":
					return v.integer(&c.counts.untimed)
				}
				return v.skip()
			})
		case "notices":
			return c.notices(v, func(id string) { notices = append(notices, c.sumOf(id)) })
		case "entries", "untimed":
			err := c.indexed(v)
			if name == "entries" {
				c.timed = len(c.listed)
			}
			return err
		case "historicalEntries":
			return v.array(func() error {
				_, sum, err := c.described(v)
				c.historical = append(c.historical, sum)
				return err
			})
		}
		return v.skip()
	}}
}

// headerEnd compares what the first line says at several places.
func (c *check) headerEnd(notices []uint64) {
	c.begun = true
	line := c.report.Lines
	c.report.Indexed = len(c.listed)
	c.seen = make([]bool, len(c.listed))
	if c.report.Version != Version {
		c.report.problem(line, CodeVersion, "The export has version %d; %d can be checked here.", c.report.Version, Version)
	}
	if len(c.index) != len(c.listed) {
		c.report.problem(line, CodeIndex, "The index lists entries twice.")
	}
	untimed := len(c.listed) - c.timed
	if c.counts.entries != int64(len(c.listed)) || c.counts.untimed != int64(untimed) {
		c.report.problem(line, CodeIndex, "The index lists %d entries, %d of them without a time, but its counts say %d and %d.",
			len(c.listed), untimed, c.counts.entries, c.counts.untimed)
	}
	if len(c.historical) != untimed {
		c.report.problem(line, CodeIndex, "historicalEntries does not list the same entries as untimed.")
	}
	for i, sum := range c.historical[:min(untimed, len(c.historical))] {
		if c.listed[c.timed+i] != sum {
			c.report.problem(line, CodeIndex, "historicalEntries does not list the same entries as untimed.")
			break
		}
	}
	for _, id := range notices {
		if _, ok := c.index[id]; !ok {
			c.report.problem(line, CodeReference, "A notice is about an entry that is not in the index.")
		}
	}
}

// indexed reads a list of entries of the index.
func (c *check) indexed(v *values) error {
	return v.array(func() error {
		entry, sum, err := c.described(v)
		if err != nil {
			return err
		}
		c.index[c.sumOf(entry.id)] = len(c.listed)
		c.listed = append(c.listed, sum)
		return nil
	})
}

// described is what an entry says of itself that others refer to.
type described struct{ id, input, answer string }

// described reads an entry's description and sums it up.
func (c *check) described(v *values) (described, uint64, error) {
	var d described
	v.mark = &maphash.Hash{}
	v.mark.SetSeed(c.seed)
	err := v.object(func(name string) error {
		switch name {
		case "id":
			return v.text(&d.id)
		case "inputId":
			return v.text(&d.input)
		case "answerId":
			return v.text(&d.answer)
		}
		return v.skip()
	})
	sum := v.mark.Sum64()
	v.mark = nil
	return d, sum, err
}

func (c *check) sumOf(id string) uint64 { return maphash.String(c.seed, id) }

// notices reads a list of notices and hands on which entries they are about.
func (c *check) notices(v *values, about func(id string)) error {
	return v.array(func() error {
		var id string
		err := v.object(func(name string) error {
			if name == "entryId" {
				return v.text(&id)
			}
			return v.skip()
		})
		if id != "" {
			about(id)
		}
		return err
	})
}

// entry reads a line of type entry.
func (c *check) entry(v *values) reader {
	c.report.Entries++
	var entry described
	var sum uint64
	var refers []string
	end := func() {
		c.listedAs(entry, sum)
		c.refers(append(refers, entry.input, entry.answer))
	}
	return reader{end: end, member: func(name string) (err error) {
		switch name {
		case "entry":
			entry, sum, err = c.described(v)
			return err
		case "tool":
			return v.object(func(name string) error {
				if name != "callerId" {
					return v.skip()
				}
				var caller string
				err := v.text(&caller)
				refers = append(refers, caller)
				return err
			})
		case "notices":
			return c.notices(v, func(id string) { refers = append(refers, id) })
		}
		return v.skip()
	}}
}

// refers checks that everything that a line refers to is in the index.
func (c *check) refers(ids []string) {
	for _, id := range ids {
		if _, ok := c.index[c.sumOf(id)]; id != "" && !ok {
			c.report.problem(c.report.Lines, CodeReference, "The line refers to entry %.64q, which is not in the index.", id)
		}
	}
}

// listedAs checks that an entry stands where the index has it, and is what the index says.
func (c *check) listedAs(entry described, sum uint64) {
	line := c.report.Lines
	at, ok := c.index[c.sumOf(entry.id)]
	switch {
	case !ok:
		c.report.problem(line, CodeUnlisted, "The entry %.64q is not in the index.", entry.id)
		return
	case c.seen[at]:
		c.report.problem(line, CodeTwice, "The entry %.64q was there before.", entry.id)
		return
	case at < c.place:
		c.report.problem(line, CodeOrder, "The entry %.64q stands behind entries that the index lists after it.", entry.id)
	default:
		c.place = at + 1
	}
	c.seen[at] = true
	if c.listed[at] != sum {
		c.report.problem(line, CodeDiffers, "The entry %.64q is not what the index says of it.", entry.id)
	}
}

// complete reads the last line.
func (c *check) complete(v *values, before []byte) (reader, error) {
	c.ended = true
	sum := sha256.New()
	if err := sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(before); err != nil { //nolint:forcetypeassert // crypto/sha256 says that it is one
		return reader{}, fmt.Errorf("sum: %w", err)
	}
	c.report.SHA256 = hex.EncodeToString(sum.Sum(nil))
	var records int64
	var said string
	end := func() {
		if records != int64(c.report.Entries) {
			c.report.problem(c.report.Lines, CodeCount, "The last line counts %d entries, but there are %d.", records, c.report.Entries)
		}
		if said != c.report.SHA256 {
			c.report.problem(c.report.Lines, CodeChecksum, "The lines before have another checksum than the last line says.")
		}
	}
	return reader{end: end, member: func(name string) error {
		switch name {
		case "records":
			return v.integer(&records)
		case "sha256":
			return v.text(&said)
		}
		return v.skip()
	}}, nil
}

// end is what can be said when all lines were read.
func (c *check) end() {
	if c.report.Lines == 0 {
		c.report.problem(0, CodeEmpty, "There is nothing in it.")
		return
	}
	missing, first := 0, -1
	for at, seen := range c.seen {
		if !seen {
			missing++
			if first < 0 {
				first = at
			}
		}
	}
	if missing > 0 {
		c.report.problem(0, CodeMissing, "%d of %d entries of the index have no line that can be read; the first of them is the index's number %d.", missing, len(c.listed), first+1)
	}
	if !c.ended {
		c.report.problem(0, CodeEnd, "The last line, of type complete, is not there.")
	}
}
