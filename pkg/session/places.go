package session

import "github.com/agentloop/agentloop/pkg/cas"

// placed is an object with references whose place says what they name. Their media types are not stored: a state and a
// context have a dozen of them, of the same few kinds, for every request.
type placed interface {
	// withRefs returns a copy of the object in which each such reference is what change makes of it, given the media type
	// that its place stands for.
	withRefs(change func(ref cas.Ref, mediaType string) cas.Ref) any
}

// brief leaves out a media type that the place says. Another one, such as that of a body in parts, stays.
func brief(ref cas.Ref, mediaType string) cas.Ref {
	if ref.MediaType == mediaType {
		ref.MediaType = ""
	}
	return ref
}

// full puts back what brief left out; earlier builds stored it.
func full(ref cas.Ref, mediaType string) cas.Ref {
	if ref.MediaType == "" {
		ref.MediaType = mediaType
	}
	return ref
}

// changed is a changed copy of an optional reference.
func changed(ref *cas.Ref, mediaType string, change func(cas.Ref, string) cas.Ref) *cas.Ref {
	if ref == nil {
		return nil
	}
	out := change(*ref, mediaType)
	return &out
}

func (c RunConfig) withRefs(change func(cas.Ref, string) cas.Ref) any {
	c.ToolSet = changed(c.ToolSet, cas.MediaToolSet, change)
	loadable := c.Loadable
	c.Loadable = nil
	for _, skill := range loadable {
		skill.Object = change(skill.Object, cas.MediaSkill)
		c.Loadable = append(c.Loadable, skill)
	}
	return c
}

func (c ContextSnapshot) withRefs(change func(cas.Ref, string) cas.Ref) any {
	c.System = changed(c.System, cas.MediaSections, change)
	c.Tools = changed(c.Tools, cas.MediaToolSet, change)
	c.Assembly.State = changed(c.Assembly.State, cas.MediaState, change)
	return c
}

func (a ModelAction) withRefs(change func(cas.Ref, string) cas.Ref) any {
	a.ContextRef = change(a.ContextRef, cas.MediaContext)
	return a
}

func (s AgentState) withRefs(change func(cas.Ref, string) cas.Ref) any {
	s.Step.ContextRef = changed(s.Step.ContextRef, cas.MediaContext, change)
	s.Step.Action = changed(s.Step.Action, cas.MediaModelAction, change)
	s.Run.Config = changed(s.Run.Config, cas.MediaRunConfig, change)
	s.Run.LastContext = changed(s.Run.LastContext, cas.MediaContext, change)
	snapshots := s.Snapshots
	s.Snapshots = nil
	for _, ref := range snapshots {
		s.Snapshots = append(s.Snapshots, change(ref, cas.MediaSnapshot))
	}
	s.Sections = changed(s.Sections, cas.MediaSections, change)
	s.Checkpoint = changed(s.Checkpoint, cas.MediaCheckpoint, change)
	s.ToolSet = changed(s.ToolSet, cas.MediaToolSet, change)
	s.Title = changed(s.Title, cas.MediaModelAction, change)
	return s
}
