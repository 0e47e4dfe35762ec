package audit

import (
	"encoding/json"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// mediaContainer stands for an object that is only known to hold messages.
const mediaContainer = "container"

// mediaText are bytes in which nothing is looked for.
const mediaText = cas.MediaBlob

// finder collects the references of one thing.
type finder struct {
	from  origin
	path  string
	found []link
}

func (f *finder) ref(field string, ref *cas.Ref, mediaType string) {
	if ref == nil {
		return
	}
	one := *ref
	if one.MediaType == "" {
		one.MediaType = mediaType
	}
	f.found = append(f.found, link{ref: one, from: f.from, path: f.path + field, index: -1})
}

func (f *finder) messageRef(field string, ref *cas.MessageRef) {
	switch {
	case ref == nil:
	case ref.Index == nil:
		f.ref(field, &cas.Ref{Digest: ref.Digest}, cas.MediaMessage)
	default:
		f.found = append(f.found, link{ref: cas.Ref{Digest: ref.Digest, MediaType: mediaContainer}, from: f.from, path: f.path + field, index: *ref.Index})
	}
}

func (f *finder) list(field string, list cas.MessageList) {
	for i := range list.Segments {
		f.ref(at(field+".segments", i), &list.Segments[i], cas.MediaSegment)
	}
	for i := range list.Tail {
		f.messageRef(at(field+".tail", i), &list.Tail[i])
	}
}

// inline looks into a message that stands where it is. One that cannot be read reaches nothing that could be found.
func (f *finder) inline(field string, raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	if m, err := message.Decode(raw); err == nil {
		f.message(field, m)
	}
}

// message finds the images of a message.
func (f *finder) message(field string, m message.Message) {
	for i, block := range m.Content.Blocks {
		if block.Ref == nil {
			continue
		}
		digest, err := cas.ParseDigest(block.Ref.Digest)
		if err != nil {
			digest = cas.Digest{} // is reported as a malformed reference
		}
		f.ref(at(field+".content", i), &cas.Ref{Digest: digest, Size: block.Ref.Size}, mediaText)
	}
}

// event finds what an event names.
func (f *finder) event(e runevent.Event) {
	f.ref("config", e.Config, cas.MediaRunConfig)
	f.ref("detail", e.Detail, mediaText)
	f.ref("record", e.Record, cas.MediaContext)
	f.messageRef("result", e.Result)
	f.ref("ref", e.Ref, cas.MediaMessage)
	f.ref("textRef", e.TextRef, mediaText)
	f.ref("argumentsRef", e.ArgumentsRef, mediaText)
	f.ref("whole", e.Whole, mediaText)
	f.ref("payloadRef", e.PayloadRef, cas.MediaModelAction)
	f.ref("checkpoint", e.Checkpoint, cas.MediaCheckpoint)
	for i := range e.SnapshotRefs {
		f.ref(at("snapshotRefs", i), &e.SnapshotRefs[i], cas.MediaSnapshot)
	}
	f.ref("sectionsRef", e.SectionsRef, cas.MediaSections)
	f.ref("evidence.contextRef", e.Evidence.ContextRef, cas.MediaContext)
	f.ref("evidence.stateRef", e.Evidence.StateRef, cas.MediaState)
	f.inline("body", e.Body)
}

func (f *finder) config(c session.RunConfig) {
	f.ref("toolSet", c.ToolSet, cas.MediaToolSet)
	for i := range c.Loadable {
		f.ref(at("loadable", i), &c.Loadable[i].Object, cas.MediaSkill)
	}
}

func (f *finder) context(c session.ContextSnapshot) {
	f.ref("system", c.System, cas.MediaSections)
	f.ref("tools", c.Tools, cas.MediaToolSet)
	f.ref("assembly.state", c.Assembly.State, cas.MediaState)
	f.list("messages", c.Messages)
}

func (f *finder) action(a session.ModelAction) {
	f.ref("contextRef", &a.ContextRef, cas.MediaContext)
	f.message("message", a.Message)
}

func (f *finder) state(s session.AgentState) {
	f.list("history", s.History)
	f.ref("step.contextRef", s.Step.ContextRef, cas.MediaContext)
	f.ref("step.action", s.Step.Action, cas.MediaModelAction)
	for i, m := range s.Step.Messages {
		f.messageRef(at("step.messages", i), m.Ref)
		f.inline(at("step.messages", i), m.Inline)
	}
	if s.Step.Terminal != nil {
		inner := finder{from: f.from, path: f.path + "step.terminal."}
		inner.event(*s.Step.Terminal)
		f.found = append(f.found, inner.found...)
	}
	f.ref("run.config", s.Run.Config, cas.MediaRunConfig)
	f.ref("run.lastContext", s.Run.LastContext, cas.MediaContext)
	for i := range s.Snapshots {
		f.ref(at("snapshots", i), &s.Snapshots[i], cas.MediaSnapshot)
	}
	f.ref("sections", s.Sections, cas.MediaSections)
	f.ref("checkpoint", s.Checkpoint, cas.MediaCheckpoint)
	f.ref("toolSet", s.ToolSet, cas.MediaToolSet)
	f.ref("title", s.Title, cas.MediaModelAction)
}
