package trajectory

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// Index is a session's trajectory up to some log position. It is immutable.
type Index struct {
	Scope    cas.Scope
	Agents   []Agent
	Notices  []Notice
	RealTime RealTime
	Counts   Counts
	Head     []StreamHead
	// Position is the log position that the index is complete up to.
	Position uint64
	// Tag names what the index was made of: two indexes of a session with the same tag say the same.
	Tag string

	nodes  []*node
	listed []*node // in listing order: timed entries by time, then untimed ones
	timed  int
	// printed are the entries of what tools printed, in listing order.
	printed []*node
	// decided are the entries of questions about calls to people, and of the answers, in listing order.
	decided []*node
	runs    []*run
	ids     *table[string]
	agents  map[string]*conversation
	// imports names the set of imported files, written counts the entries of each agent's files.
	imports string
	written map[string]*Agent
	// payloads are the imported payload files by the digest of their bytes.
	payloads map[cas.Digest]*legacyFile
}

// conversation is what leads to an agent's history.
type conversation struct {
	stream  runevent.Stream
	state   *cas.Ref
	prompts []prompt
	objects *table[cas.Digest]
	tools   *table[toolKey]
}

// Index returns the trajectory as it is now: the same value as long as nothing is added.
func (b *Builder) Index() *Index {
	if b.last != nil && !b.dirty {
		return b.last
	}
	ix := &Index{
		Scope: b.scope, Position: b.complete, ids: b.ids, nodes: slices.Clone(b.nodes),
		Notices: append(slices.Clone(b.notices), b.truncations()...),
		imports: b.imports.name(), written: map[string]*Agent{},
	}
	if b.imports != nil {
		ix.payloads = b.imports.payloads
	}
	if b.unlisted > 0 {
		ix.Notices = append(ix.Notices, Notice{Code: CodeMore, Message: fmt.Sprintf("%d more notices are not listed.", b.unlisted)})
	}
	ix.list(b.arrange())
	for _, key := range b.order {
		ix.runs = append(ix.runs, b.runs[key])
	}
	slices.SortStableFunc(ix.runs, func(x, y *run) int {
		return cmp.Or(cmp.Compare(x.StartedAt, y.StartedAt), cmp.Compare(agentRank(x.Agent), agentRank(y.Agent)))
	})
	ix.summarize(b)
	ix.Tag = ix.tag(b)
	b.epoch++
	b.last, b.dirty = ix, false
	return ix
}

// tag names the streams' ends, the imported files and what was found out besides: the notices, and which models are known.
func (ix *Index) tag(b *Builder) string {
	sum := sha256.New()
	var ends []string
	for name, s := range b.streams {
		if name.Class != classLegacy {
			ends = append(ends, fmt.Sprintf("%s %d %s", streamName(name), s.head.Sequence, s.head.Digest))
		}
	}
	slices.Sort(ends)
	models := 0
	for _, r := range ix.runs {
		if r.Model != nil {
			models++
		}
	}
	fmt.Fprintf(sum, "%s\n%s\n%s\n%d\n%d\n%+v", ix.Scope.Session, ix.imports, strings.Join(ends, "\n"), models, ix.Position, ix.Notices)
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// truncations are notices about streams that are shorter than they are known to have been.
func (b *Builder) truncations() []Notice {
	var notices []Notice
	for name, sequence := range b.expected {
		head := b.Head(name).Sequence
		if head >= sequence {
			continue
		}
		notices = append(notices, Notice{
			Code: CodeTruncated, Agent: agentOf(name), Stream: streamName(name), From: head + 1, To: sequence,
			Message: fmt.Sprintf("The stream ends with #%d but is known to have had #%d: it was cut or restored from an older backup.", head, sequence),
		})
	}
	slices.SortFunc(notices, func(a, b Notice) int { return cmp.Compare(a.Stream, b.Stream) })
	return notices
}

func agentOf(name runevent.Stream) string {
	if name.Class != runevent.ClassRun {
		return ""
	}
	return name.Key
}

// arrange brings the new nodes into the listing order and returns the places of all.
func (b *Builder) arrange() []int {
	fresh := make([]int, 0, len(b.nodes)-len(b.sorted))
	for at := len(b.sorted); at < len(b.nodes); at++ {
		fresh = append(fresh, at)
	}
	if len(fresh) == 0 {
		return b.sorted
	}
	order := func(x, y int) int { return b.nodes[x].place().compare(b.nodes[y].place()) }
	slices.SortFunc(fresh, order)
	merged := make([]int, 0, len(b.nodes))
	old := b.sorted
	for _, at := range fresh { // few, most often, among many
		before := sort.Search(len(old), func(i int) bool { return order(old[i], at) > 0 })
		merged, old = append(append(merged, old[:before]...), at), old[before:]
	}
	b.sorted = append(merged, old...)
	return b.sorted
}

// place is where an entry stands in the listing: by capture time, then by stream and sequence; untimed entries last.
type place struct {
	Untimed  bool
	At       Time
	Stream   string
	First    int64
	Sequence int64
}

func (n *node) place() place {
	return place{Untimed: n.CapturedAt == 0, At: n.CapturedAt, Stream: rank(n.stream), First: n.first, Sequence: n.Sequence}
}

// agentRank puts the main agent before the others.
func agentRank(key string) string {
	if key == runevent.MainAgent {
		return ""
	}
	return key
}

// rank puts the main agent's stream before the others of the same moment.
func rank(name runevent.Stream) string {
	if name.Class == runevent.ClassRun && name.Key == runevent.MainAgent {
		return ""
	}
	return streamName(name)
}

func (p place) compare(o place) int {
	if p.Untimed != o.Untimed {
		if o.Untimed {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(p.At, o.At), cmp.Compare(p.Stream, o.Stream), cmp.Compare(p.First, o.First), cmp.Compare(p.Sequence, o.Sequence))
}

func (ix *Index) list(places []int) {
	ix.listed = make([]*node, len(places))
	for i, at := range places {
		n := ix.nodes[at]
		ix.listed[i] = n
		ix.Counts.Entries++
		if n.Hidden {
			ix.Counts.Hidden++
		}
		if n.CapturedAt == 0 {
			ix.Counts.Untimed++
		}
		if n.stream.Class == runevent.ClassOut {
			ix.printed = append(ix.printed, n)
		}
		if n.Event == string(runevent.KindApproval) {
			ix.decided = append(ix.decided, n)
		}
		if n.file != nil {
			ix.importedBy(n)
		}
	}
	ix.timed = ix.Counts.Entries - ix.Counts.Untimed
}

// summarize fills in what is said about agents and streams.
func (ix *Index) summarize(b *Builder) {
	ix.RealTime = RealTime{Message: realTimeMessage, Untimed: ix.Counts.Untimed, Adjusted: b.adjusted}
	ix.agents = map[string]*conversation{}
	byAgent := map[string]*Agent{}
	for name, s := range b.streams {
		if name.Class != runevent.ClassRun {
			continue
		}
		agent := newAgent(name.Key)
		agent.Parent, agent.StartedAt, agent.Entries, agent.LastSequence = b.parents[name.Key], s.began, s.entries, s.head.Sequence
		byAgent[name.Key] = agent
		ix.Head = append(ix.Head, StreamHead{Agent: name.Key, Sequence: s.head.Sequence, Digest: s.head.Digest})
		ix.agents[name.Key] = &conversation{stream: name, state: s.stateRef, prompts: slices.Clip(s.prompts), objects: s.objects, tools: s.tools}
	}
	for key, written := range ix.written {
		if agent := byAgent[key]; agent != nil {
			agent.Entries += written.Entries
			continue
		}
		byAgent[key] = written
		ix.agents[key] = &conversation{objects: newTable[cas.Digest](), tools: newTable[toolKey]()}
	}
	for _, r := range ix.runs {
		agent := byAgent[r.Agent]
		agent.Runs++
		agent.Live = agent.Live || r.EndedAt == 0 && r.Status == "running"
		agent.EndedAt = max(agent.EndedAt, r.EndedAt)
	}
	for _, agent := range byAgent {
		if agent.Live {
			agent.EndedAt = 0
		}
		ix.Agents = append(ix.Agents, *agent)
	}
	slices.SortFunc(ix.Agents, func(x, y Agent) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.StartedAt, y.StartedAt), cmp.Compare(x.ID, y.ID))
	})
	slices.SortFunc(ix.Head, func(x, y StreamHead) int { return cmp.Compare(x.Agent, y.Agent) })
}

func newAgent(key string) *Agent {
	if key == runevent.MainAgent {
		return &Agent{ID: key, Kind: "main"}
	}
	return &Agent{ID: key, Kind: "subagent"}
}

// importedBy counts an imported entry for its agent, which may have no stream of run events.
func (ix *Index) importedBy(n *node) {
	agent := ix.written[n.Agent]
	if agent == nil {
		agent = newAgent(n.Agent)
		ix.written[n.Agent] = agent
	}
	agent.Entries++
	if agent.StartedAt == 0 {
		agent.StartedAt = n.CapturedAt
	}
	agent.EndedAt = max(agent.EndedAt, n.EndedAt, n.CapturedAt)
}

// find returns the node of an id that is in this index.
func (ix *Index) find(id string) (*node, bool) {
	at, ok := ix.ids.find(id)
	if !ok || at >= len(ix.nodes) {
		return nil, false
	}
	return ix.nodes[at], true
}

// Has says whether the index has an entry of that id.
func (ix *Index) Has(id string) bool {
	_, ok := ix.find(id)
	return ok
}

// Empty says whether no stream of the session has an entry.
func (ix *Index) Empty() bool { return len(ix.nodes) == 0 && len(ix.Head) == 0 && len(ix.Notices) == 0 }

// cutStream takes a stream's name to people apart.
func cutStream(name string) (class, key string, ok bool) { return strings.Cut(name, "/") }
