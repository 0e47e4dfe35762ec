package controllers

import (
	"cmp"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/kube"
)

// first says whether no unfinished run of the same agent stands before this one. A run that may be on the work queue
// stands before all others, whatever their numbers say.
func (f runFacts) first() bool {
	for i := range f.siblings {
		other := &f.siblings[i]
		if other.UID == f.run.UID || kube.AgentKey(other) != kube.AgentKey(f.run) || other.IsFinished() {
			continue
		}
		if held := hasFinalizer(other); held != hasFinalizer(f.run) {
			if held {
				return false
			}
			continue
		}
		if compareRuns(other, f.run) < 0 {
			return false
		}
	}
	return true
}

// compacting names a run before this one that compacts the session when this one would, too: a second compaction at once
// has nothing left to do. It is empty when there is none.
func (f runFacts) compacting() string {
	for i := range f.siblings {
		other := &f.siblings[i]
		both := f.run.Spec.Operation == api.OperationCompact && other.Spec.Operation == api.OperationCompact
		if both && other.UID != f.run.UID && !other.IsFinished() && compareRuns(other, f.run) < 0 {
			return other.Name
		}
	}
	return ""
}

// compareRuns is the order of a session's runs: by ordinal, those without one last, by creation and name.
func compareRuns(a, b *api.AgentRun) int {
	x, y := a.Status.Ordinal, b.Status.Ordinal
	switch {
	case x != 0 && y != 0 && x != y:
		return cmp.Compare(x, y)
	case x != 0 && y == 0:
		return -1
	case x == 0 && y != 0:
		return 1
	}
	if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
		return order
	}
	return cmp.Compare(a.Name, b.Name)
}

// ordinal is the run's place; 0 while an older run has none yet. A run that ended without one, because its session did
// not exist, never gets one.
func (f runFacts) ordinal() int64 {
	if f.run.Status.Ordinal > 0 {
		return f.run.Status.Ordinal
	}
	highest := f.session.Status.RunsTotal
	for i := range f.siblings {
		other := &f.siblings[i]
		highest = max(highest, other.Status.Ordinal)
		if other.Status.Ordinal == 0 && !other.IsFinished() && other.UID != f.run.UID && compareRuns(other, f.run) < 0 {
			return 0
		}
	}
	return highest + 1
}
