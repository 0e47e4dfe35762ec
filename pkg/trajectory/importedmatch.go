package trajectory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/legacy"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// matching is what is known about which imported records say the same as others.
type matching struct {
	// done says that everything up to a log position was compared.
	done     bool
	position uint64
	// noticed are the disagreements that have a notice.
	noticed map[[2]int]bool
	// compared are pairs of entries that were read, arguments calls whose parameters were: neither is read again before it
	// has grown.
	compared  map[[2]int]comparison
	arguments map[int]arguments
}

// comparison is what a pair of entries was found to be when they had so many records together.
type comparison struct {
	records int
	same    bool
}

// arguments are a call's parameters as their digest when the call had so many records; zero for a call without any.
type arguments struct {
	records int
	digest  cas.Digest
}

func newMatching() matching {
	return matching{noticed: map[[2]int]bool{}, compared: map[[2]int]comparison{}, arguments: map[int]arguments{}}
}

// saying is what a text or response is compared by: equal ones of one agent may be the same.
type saying struct {
	agent, response string
	kind            runevent.Type
}

// calling is what a tool call is compared by.
type calling struct{ agent, call string }

// candidates are the entries of run events and journals that imported ones may double.
type candidates struct {
	texts map[saying][]int
	calls map[calling][]int
}

// matcher compares entries by what they hold.
type matcher struct {
	reader *Reader
	b      *Builder
	window *window
	found  candidates
}

// match finds the imported records that others double, and the parameters that segments have of calls without any. It
// compares anew whenever something was appended: an entry that has grown may be equal by now.
func (r *Reader) match(ctx context.Context, b *Builder) error {
	im := b.imports
	if im == nil || len(im.files) == 0 || im.done && im.position == b.complete {
		return nil
	}
	m := &matcher{reader: r, b: b, window: newWindow(r.log), found: b.candidates()}
	for _, at := range append(append([]int{}, im.texts...), im.actions...) {
		if err := m.double(ctx, at); err != nil {
			return err
		}
	}
	if err := m.matchCalls(ctx); err != nil {
		return err
	}
	im.done, im.position = true, b.complete
	return nil
}

// candidates collects what imported records are compared with.
func (b *Builder) candidates() candidates {
	found := candidates{texts: map[saying][]int{}, calls: map[calling][]int{}}
	for at, n := range b.nodes {
		if n.file != nil && n.file.Kind != legacy.KindJournal {
			continue
		}
		switch {
		case n.Type == TypeTool || n.Type == TypeMCP:
			key := calling{n.Agent, n.ToolCallID}
			found.calls[key] = append(found.calls[key], at)
		case n.ResponseID == "":
		case n.Type == TypeReasoning, n.Type == TypeModelOutput, n.Event == string(runevent.TypeBody):
			key := n.saying()
			found.texts[key] = append(found.texts[key], at)
		}
	}
	return found
}

func (n *node) saying() saying {
	return saying{agent: n.Agent, response: n.ResponseID, kind: runevent.Type(n.Event)}
}

// double hides an imported text or response when an entry of run events, or else of a journal, has the same agent,
// response, channel and complete content.
func (m *matcher) double(ctx context.Context, at int) error {
	n := m.b.nodes[at]
	same := ""
	if n.ResponseID != "" {
		for _, other := range m.found.texts[n.saying()] {
			o := m.b.nodes[other]
			if other == at || o.file != nil && (n.file.Kind == legacy.KindJournal || same != "") {
				continue // journals are compared with run events only
			}
			equal, err := m.equal(ctx, at, other)
			if err != nil {
				return err
			}
			if equal {
				same = o.ID
			}
		}
	}
	m.hide(at, same)
	return nil
}

// hide notes that an entry doubles another one; nothing when same is empty.
func (m *matcher) hide(at int, same string) {
	if m.b.nodes[at].DuplicateOf == same {
		return
	}
	n := m.b.edit(at, runevent.Head{Position: m.b.complete})
	n.DuplicateOf = same
	n.Hidden = same != "" || n.Type == TypeLifecycle
	m.b.dirty = true
}

// read opens an entry as it is recorded, without anything from elsewhere.
func (m *matcher) read(ctx context.Context, n *node) (*detail, error) {
	alone := *n
	alone.supplement = nil
	d := &detail{reader: m.reader, index: &Index{Scope: m.b.scope, payloads: m.b.imports.payloads, ids: newTable[string]()}, node: &alone, window: m.window}
	d.Detail = Detail{Entry: n.Entry}
	if err := d.readEvents(ctx); err != nil || len(d.events) == 0 {
		return d, err
	}
	return d, d.content(ctx)
}

func (m *matcher) equal(ctx context.Context, a, b int) (bool, error) {
	pair := [2]int{a, b}
	records := len(m.b.nodes[a].records) + len(m.b.nodes[b].records)
	if known := m.b.imports.compared[pair]; known.records == records {
		return known.same, nil
	}
	one, err := m.read(ctx, m.b.nodes[a])
	if err != nil {
		return false, err
	}
	two, err := m.read(ctx, m.b.nodes[b])
	if err != nil {
		return false, err
	}
	same := false
	switch {
	case one.Text != nil && two.Text != nil:
		same = len(two.Notices) == 0 && one.Text.Text == two.Text.Text
	case one.Output != nil && two.Output != nil:
		same = jsonDigest(one.Output.Message) == jsonDigest(two.Output.Message) && one.Output.Message != nil
	}
	m.b.imports.compared[pair] = comparison{records, same}
	return same, nil
}

// jsonDigest is the same for the same JSON value, whatever the order of keys and the white space. Numbers are the same when
// they are written alike. It is zero for what is no JSON.
func jsonDigest(raw []byte) cas.Digest {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if dec.Decode(&value) != nil {
		return cas.Digest{}
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		return cas.Digest{}
	}
	return cas.Of(sorted)
}

// matchCalls compares the tool calls of segments with the calls that they belong to.
func (m *matcher) matchCalls(ctx context.Context) error {
	segments := map[int][]int{}
	var events []int
	for _, at := range m.b.imports.calls {
		event := m.owner(m.b.nodes[at])
		if event < 0 {
			m.hide(at, "")
			continue
		}
		if segments[event] == nil {
			events = append(events, event)
		}
		segments[event] = append(segments[event], at)
	}
	for _, event := range events {
		if err := m.call(ctx, event, segments[event]); err != nil {
			return err
		}
	}
	return nil
}

// call compares one call with the segments' entries of it. Parameters that the call has itself are never replaced; those
// of segments are taken only if all of them agree.
func (m *matcher) call(ctx context.Context, event int, segments []int) error {
	known, err := m.parameters(ctx, event)
	if err != nil {
		return err
	}
	own := !known.IsZero()
	source := -1
	var equal, other []int
	for _, at := range segments {
		parameters, err := m.parameters(ctx, at)
		if err != nil {
			return err
		}
		switch {
		case parameters.IsZero():
			equal = append(equal, at)
		case known.IsZero():
			known, source = parameters, at
			equal = append(equal, at)
		case known == parameters:
			equal = append(equal, at)
		default:
			other = append(other, at)
		}
	}
	if !own && len(other) > 0 { // none of them is certain
		equal, other, source = nil, segments, -1
	}
	m.supply(event, source)
	for _, at := range equal {
		m.hide(at, m.b.nodes[event].ID)
	}
	for _, at := range other {
		m.hide(at, "")
		m.disagree(event, at)
	}
	return nil
}

// owner is the place of the only call of the segment's owner with its id, when it has the same name; -1 for none.
func (m *matcher) owner(n *node) int {
	found := -1
	for _, at := range m.found.calls[calling{n.Agent, n.ToolCallID}] {
		o := m.b.nodes[at]
		if n.Run != nil && o.Run != nil && n.Run.UID != o.Run.UID {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = at
	}
	if found >= 0 && m.b.nodes[found].Title != n.Title {
		return -1
	}
	return found
}

// parameters are those of a call, as their digest; zero when none were recorded.
func (m *matcher) parameters(ctx context.Context, at int) (cas.Digest, error) {
	n := m.b.nodes[at]
	if known := m.b.imports.arguments[at]; known.records == len(n.records) {
		return known.digest, nil
	}
	d, err := m.read(ctx, n)
	if err != nil {
		return cas.Digest{}, err
	}
	found := arguments{records: len(n.records)}
	if d.Tool != nil && d.Tool.Parameters != nil {
		found.digest = jsonDigest(d.Tool.Parameters)
	}
	m.b.imports.arguments[at] = found
	return found.digest, nil
}

// supply gives a call the parameters of a segment's entry; of none below 0.
func (m *matcher) supply(event, at int) {
	var source *node
	if at >= 0 {
		source = m.b.nodes[at]
	}
	before := m.b.nodes[event].supplement
	if before == nil && source == nil || before != nil && source != nil && before.ID == source.ID {
		return
	}
	m.b.edit(event, runevent.Head{Position: m.b.complete}).supplement = source
	m.b.dirty = true
}

func (m *matcher) disagree(event, at int) {
	key := [2]int{event, at}
	if m.b.imports.noticed[key] {
		return
	}
	m.b.imports.noticed[key] = true
	n, segment := m.b.nodes[event], m.b.nodes[at]
	m.b.notice(Notice{
		Code: CodeDisagree, Agent: n.Agent, Stream: segment.file.Path, From: segment.Sequence, To: segment.Sequence, EntryID: n.ID,
		Message: fmt.Sprintf("Line %d of the imported file has other parameters for this call than were recorded elsewhere. They are not merged; both are shown.", segment.Sequence),
	})
}
