package v1alpha1

// Labels, annotations and finalizers that users and the controllers put on objects.
const (
	// LabelCredential must have the value "true" on a Secret before anything here reads it. It keeps a person who may
	// create sessions, but not read Secrets, from sending any Secret of the namespace to a URL of their choice.
	LabelCredential = GroupName + "/credential"

	// LabelParent on the AgentRun of a subagent is the UID of the run that delegates to it.
	LabelParent = GroupName + "/parent"

	// AnnotationForceDelete with the value "true" on a terminating AgentSession lets it go although its history could not
	// be purged. It is for stores that are gone for ever; what was not purged stays where it is.
	AnnotationForceDelete = GroupName + "/force-delete"

	// AnnotationMaxConcurrentRuns on a Namespace replaces the manager's cap on how many runs of that namespace are queued
	// or running at once. The value is a positive decimal integer.
	AnnotationMaxConcurrentRuns = GroupName + "/max-concurrent-runs"
	// AnnotationTraceParent on an AgentRun is the trace that the run is part of, in the form of W3C Trace Context. It is read
	// when a worker takes the run; one that cannot be read counts as none.
	AnnotationTraceParent = GroupName + "/traceparent"

	// FinalizerSession holds an AgentSession until its runs are gone and, with onDelete Delete, its history is purged.
	FinalizerSession = GroupName + "/session"

	// FinalizerRun holds an AgentRun until its end is written to the session's run events.
	FinalizerRun = GroupName + "/run"
)

// ValueTrue is the only value that switches on LabelCredential and AnnotationForceDelete.
const ValueTrue = "true"

// AgentMain is the name of a session's own agent. Every other name is that of one of its subagents.
const AgentMain = "main"

// Names that only access rules use: no request of the API server serves them.
const (
	// SubresourceTrajectory is what a reader of recorded trajectories needs the verb get for.
	SubresourceTrajectory = "agentsessions/trajectory"

	// SubresourceTrajectoryExport is what a downloader of whole trajectories needs the verb get for.
	SubresourceTrajectoryExport = "agentsessions/trajectoryexport"

	// VerbAdopt on agentsessions is needed to create a session that continues the history named in adoptUID.
	VerbAdopt = "adopt"
)
