package trajectory

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// Builder folds the run events of one session into an index. It is fed the records of each stream in order and makes
// immutable Index values; a later Index costs only what was added since. Use from one goroutine at a time; an Index may
// be used by any number.
type Builder struct {
	scope   cas.Scope
	decoder runevent.Decoder
	streams map[runevent.Stream]*stream
	// nodes are in the order in which they were met; ids leads from an entry's id to its place.
	nodes []*node
	ids   *table[string]
	runs  map[runKey]*run
	// order has the runs as they were met.
	order   []runKey
	notices []Notice
	// unlisted counts the notices beyond maxNotices.
	unlisted int
	configs  map[cas.Digest]*ModelName
	parents  map[string]string
	// complete is the log position up to which no record of any stream is left out.
	complete uint64
	// late says that a record was added since that stands at or before complete.
	late     bool
	adjusted int
	// expected is how long streams are known to have been.
	expected map[runevent.Stream]int64
	// epoch counts the indexes made: what is older than it is shared with one of them and must be copied before a change.
	epoch int
	// sorted are the nodes up to a place, in listing order.
	sorted []int
	// imports is what was imported from earlier formats; nil until it was looked for.
	imports *imports
	// last is the latest index, dirty whether something changed since.
	last  *Index
	dirty bool
}

// table leads from a key to a node's place. Builder writes, every Index reads: an Index ignores places beyond its own.
type table[K comparable] struct {
	mu     sync.RWMutex
	places map[K]int
}

func newTable[K comparable]() *table[K] { return &table[K]{places: map[K]int{}} }

func (t *table[K]) find(key K) (int, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	place, ok := t.places[key]
	return place, ok
}

func (t *table[K]) add(key K, place int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.places[key] = place
}

// node is an entry with what the index keeps besides.
type node struct {
	Entry
	stream runevent.Stream
	// first is the sequence of its first record: with the capture time it is the node's place in the listing.
	first int64
	// records are its records.
	records []recordAt
	// changed is the log position of the record that changed it last.
	changed uint64
	// stateRef is the committed state that held at its defining record.
	stateRef *cas.Ref
	epoch    int
	// Of an imported entry: its file, where its records stand there, and which of the things that such a record says it is.
	file  *legacyFile
	spans []cas.Range
	part  int
	// supplement is, of a tool call without parameters, the imported entry that has them.
	supplement *node
}

// recordAt is a record of a node's stream and where the log has it.
type recordAt struct {
	sequence int64
	position uint64
}

// defining is where the record stands that defines the entry.
func (n *node) defining() recordAt {
	for _, at := range n.records {
		if at.sequence == n.Sequence {
			return at
		}
	}
	return recordAt{sequence: n.Sequence}
}

// runKey names a run by the agent whose stream it is in: no other stream's records can change it.
type runKey struct{ agent, uid string }

// run is a run with what is open in it.
type run struct {
	Run
	config  *cas.Ref
	started int // the node of its first run.started
	changed uint64
	epoch   int
	// open are the nodes that wait for an end.
	open []int
}

// stream is how far one stream was read, and what later records of it refer to.
type stream struct {
	name runevent.Stream
	head runevent.Head
	// latest is the running maximum of capture times: within a stream times follow the sequence.
	latest   Time
	stateRef *cas.Ref
	entries  int
	began    Time
	inputs   map[requestKey]int
	answers  map[requestKey]int
	texts    map[textKey]int
	tools    *table[toolKey]
	// prompts are the accepted user messages in order; objects leads from a message's object to the node it came from.
	prompts []prompt
	objects *table[cas.Digest]
}

// requestKey is one dispatch of one fixed input.
type requestKey struct {
	run, request string
	context      cas.Digest
}

// textKey is the text of one kind in one response.
type textKey struct {
	kind     runevent.Type
	request  requestKey
	response string
	call     string
	attempt  int
	// line keeps imported texts apart that name neither request nor response, or are complete in themselves.
	line int64
}

// toolKey is one tool call.
type toolKey struct{ run, request, call string }

type prompt struct {
	digest cas.Digest
	node   int
	at     int64
}

// NewBuilder returns a builder for one session's history.
func NewBuilder(scope cas.Scope) *Builder {
	return &Builder{
		scope: scope, streams: map[runevent.Stream]*stream{}, ids: newTable[string](), runs: map[runKey]*run{},
		configs: map[cas.Digest]*ModelName{}, parents: map[string]string{}, expected: map[runevent.Stream]int64{},
	}
}

// Expect says that a stream is known to have had that many entries once. An index of fewer has a notice.
func (b *Builder) Expect(name runevent.Stream, sequence int64) {
	if sequence > b.expected[name] {
		b.expected[name] = sequence
		b.dirty = true
	}
}

// Head returns how far a stream was read.
func (b *Builder) Head(name runevent.Stream) runevent.Head {
	if s := b.streams[name]; s != nil {
		return s.head
	}
	return runevent.Head{}
}

// Size is about how many bytes the builder holds.
func (b *Builder) Size() int64 {
	const perNode, perRun, perStream = 900, 500, 2000
	return int64(len(b.nodes)*perNode+len(b.runs)*perRun+len(b.streams)*perStream) + b.imports.size()
}

func (b *Builder) stream(name runevent.Stream) *stream {
	s := b.streams[name]
	if s == nil {
		s = &stream{
			name: name, inputs: map[requestKey]int{}, answers: map[requestKey]int{}, texts: map[textKey]int{}, tools: newTable[toolKey](),
			objects: newTable[cas.Digest](),
		}
		b.streams[name] = s
	}
	return s
}

// Add folds the next record of a stream. What is wrong with it becomes a notice; folding goes on after it.
func (b *Builder) Add(record runevent.Record) {
	s := b.stream(record.Stream)
	before := s.head
	b.Expect(s.name, record.Head.Sequence)
	s.head, b.dirty = record.Head, true
	entry, err := b.decoder.Decode(record.Raw)
	newer := errors.Is(err, runevent.ErrNewerFormat)
	if err != nil && !newer || entry.Sequence != record.Head.Sequence || cas.Of(record.Raw) != record.Head.Digest {
		b.follows(s.name, before, record.Head, nil)
		b.damaged(s.name, record.Head.Sequence)
		return
	}
	b.follows(s.name, before, record.Head, &entry)
	if newer {
		b.unknown(s, entry, record.Head)
		return
	}
	b.fold(s, b.fact(s, entry, record.Head))
}

// fact is a readable record with its place on the time axis and its owner.
func (b *Builder) fact(s *stream, entry runevent.Entry, head runevent.Head) fact {
	f := fact{entry: entry, head: head, at: b.capture(s, entry), agent: s.name.Key}
	if s.name.Class != runevent.ClassRun {
		f.agent = entry.Event.Evidence.AgentID
	}
	return f
}

// follows compares a record with the one that was read before it. entry is nil for one that cannot be read.
func (b *Builder) follows(name runevent.Stream, before, head runevent.Head, entry *runevent.Entry) {
	switch {
	case head.Sequence != before.Sequence+1:
		b.gap(name, before.Sequence+1, head.Sequence-1)
	case entry != nil && entry.Event.Evidence.Prev != before.Digest:
		b.notice(Notice{
			Code: CodeLink, Stream: streamName(name), From: head.Sequence, To: head.Sequence, EntryID: entryID(name, head.Sequence),
			Message: fmt.Sprintf("Record #%d does not name the record before it: one of the two was replaced.", head.Sequence),
		})
	}
}

func (b *Builder) damaged(name runevent.Stream, sequence int64) {
	b.notice(Notice{
		Code: CodeDamaged, Stream: streamName(name), From: sequence, To: sequence,
		Message: fmt.Sprintf("Record #%d is damaged and was left out.", sequence),
	})
}

// gap notes that records from and to, and those between, are not there.
func (b *Builder) gap(name runevent.Stream, from, to int64) {
	b.notice(Notice{
		Code: CodeGap, Stream: streamName(name), From: from, To: to,
		Message: fmt.Sprintf("Records #%d to #%d are missing.", from, to),
	})
}

// Complete says that every record up to a log position has been added.
func (b *Builder) Complete(position uint64) {
	if b.late {
		position = max(position, b.complete+1)
	}
	if position > b.complete {
		b.complete, b.dirty = position, true
	}
	b.late = false
}

// changedAt is the position from which on a record's changes are news: its own, unless an index was said to be complete
// behind that already. Then the record was seen late, because some of a log's streams were looked up later than others,
// and who reads increments must still get it.
func (b *Builder) changedAt(head runevent.Head) uint64 {
	switch {
	case head.Position == 0: // of an imported file, or out of an archive
		return 0
	case head.Position <= b.complete:
		b.late = true
		return b.complete + 1
	}
	return head.Position
}

// Missing notes that a stream ends at head and that the records before it, since the last one added, could not be read.
func (b *Builder) Missing(name runevent.Stream, head runevent.Head) {
	s := b.stream(name)
	if s.head.Sequence >= head.Sequence {
		return
	}
	b.Expect(name, head.Sequence)
	b.gap(name, s.head.Sequence+1, head.Sequence)
	s.head = head
}

// maxNotices is how many notices are kept one by one: a stream that is damaged all over would fill every answer.
const maxNotices = 1000

func (b *Builder) notice(n Notice) {
	b.dirty = true
	if len(b.notices) >= maxNotices {
		b.unlisted++
		return
	}
	if class, key, ok := cutStream(n.Stream); ok && class == string(runevent.ClassRun) {
		n.Agent = key
	}
	b.notices = append(b.notices, n)
}

// capture returns the record's place on the time axis: its capture time, moved forward where the clock of its stream
// went back; zero when none was recorded.
func (b *Builder) capture(s *stream, entry runevent.Entry) moment {
	at := timeOf(entry.Event.Evidence.RecordedAt)
	if at == 0 {
		return moment{}
	}
	if at < s.latest {
		b.adjusted++
		return moment{at: s.latest, adjusted: true}
	}
	s.latest = at
	return moment{at: at}
}

// moment is a time on the axis and whether it was moved there.
type moment struct {
	at       Time
	adjusted bool
}

// place adds a node and returns its place.
func (b *Builder) place(n node) int {
	n.epoch = b.epoch
	at := len(b.nodes)
	b.nodes = append(b.nodes, &n)
	b.ids.add(n.ID, at)
	return at
}

// edit returns the node at a place for a change by the record at head. A node that an index shows already is copied.
func (b *Builder) edit(at int, head runevent.Head) *node {
	n := b.nodes[at]
	if n.epoch != b.epoch {
		copied := *n
		copied.records, copied.spans = slices.Clone(n.records), slices.Clone(n.spans)
		copied.epoch = b.epoch
		n = &copied
		b.nodes[at] = n
	}
	n.changed = max(n.changed, b.changedAt(head))
	return n
}

// join adds the record to the node at a place.
func (b *Builder) join(at int, f fact) *node {
	n := b.edit(at, f.head)
	n.records = append(n.records, recordAt{f.head.Sequence, f.head.Position})
	if f.file != nil {
		n.spans = append(n.spans, f.span)
	}
	n.LastSequence = max(n.LastSequence, f.head.Sequence)
	return n
}

// editRun returns a run for a change by the record at head.
func (b *Builder) editRun(key runKey, head runevent.Head) *run {
	r := b.runs[key]
	if r.epoch != b.epoch {
		copied := *r
		copied.epoch = b.epoch
		if r.Usage != nil {
			usage := *r.Usage
			copied.Usage = &usage
		}
		r = &copied
		b.runs[key] = r
	}
	r.changed = max(r.changed, b.changedAt(head))
	return r
}

// entryID is the id of the entry that a record defines. Clients must not take it apart.
func entryID(name runevent.Stream, sequence int64) string {
	return string(name.Class) + "." + name.Key + "." + strconv.FormatInt(sequence, 10)
}
