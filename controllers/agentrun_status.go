package controllers

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

func (f runFacts) base() *api.AgentRunStatus {
	status := f.run.Status.DeepCopy()
	status.ObservedGeneration = f.run.Generation
	if f.session != nil {
		status.Ordinal = f.ordinal()
	}
	return status
}

func (f runFacts) set(status *api.AgentRunStatus, kind string, value metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: message, ObservedGeneration: f.run.Generation,
		LastTransitionTime: seconds(f.now),
	})
}

// seconds is a time as the API server keeps it: a finer one would never equal what was written, and be written again
// and again.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t).Rfc3339Copy() }

// waitFor reports a run whose session does not exist: whether it is accepted is not decided.
func (f runFacts) waitFor(message string) runDecision {
	status := f.base()
	f.set(status, api.ConditionSucceeded, metav1.ConditionUnknown, api.RunReasonQueued, message)
	f.set(status, api.ConditionFinished, metav1.ConditionFalse, api.RunReasonInProgress, "")
	return runDecision{status: status, requeue: f.untilDeadline()}
}

// stopping reports a run that is left to a worker that would end it.
func (f runFacts) stopping(end verdict) *api.AgentRunStatus {
	status := f.base()
	reason := api.RunReasonCancelling
	if !f.cancelling() {
		reason = api.RunReasonQueued
	}
	f.set(status, api.ConditionAccepted, metav1.ConditionTrue, api.RunReasonAccepted, "")
	f.set(status, api.ConditionSucceeded, metav1.ConditionUnknown, reason, "about to end: "+end.message)
	f.set(status, api.ConditionFinished, metav1.ConditionFalse, api.RunReasonInProgress, "")
	return status
}

// queued reports a run that waits, and why.
func (f runFacts) queued(waiting string) *api.AgentRunStatus {
	status := f.base()
	if waiting == "" {
		waiting = "waiting for a worker"
	}
	f.set(status, api.ConditionAccepted, metav1.ConditionTrue, api.RunReasonAccepted, "")
	f.set(status, api.ConditionSucceeded, metav1.ConditionUnknown, api.RunReasonQueued, waiting)
	f.set(status, api.ConditionFinished, metav1.ConditionFalse, api.RunReasonInProgress, "")
	return status
}

// refused reports a run whose end no run event tells.
func (f runFacts) refused(v verdict) *api.AgentRunStatus {
	status := f.base()
	now := seconds(f.now)
	status.CompletionTime = &now
	if v.reason == api.RunReasonCancelled || v.reason == api.RunReasonSessionDeleted || v.reason == api.RunReasonInternalError {
		if condition(status.Conditions, api.ConditionAccepted) == metav1.ConditionUnknown {
			f.set(status, api.ConditionAccepted, metav1.ConditionTrue, api.RunReasonAccepted, "")
		}
	} else {
		f.set(status, api.ConditionAccepted, metav1.ConditionFalse, v.reason, v.message)
	}
	f.set(status, api.ConditionSucceeded, metav1.ConditionFalse, v.reason, v.message)
	f.set(status, api.ConditionFinished, metav1.ConditionTrue, v.reason, "")
	return status
}

// progressed reports what the log says about the run.
func (f runFacts) progressed() *api.AgentRunStatus {
	status, run := f.base(), f.log.State.Run
	started := seconds(run.StartedAt)
	status.StartTime, status.TraceID = &started, kube.TraceID(f.run)
	status.Turn, status.ModelRequests, status.ToolCalls = int32(run.Turn), int32(run.Requests), int32(run.ToolCalls)
	status.RequestsWithoutUsage = int32(run.Usage.RequestsWithoutUsage)
	status.Usage = kube.UsageOf(run.Usage)
	status.Worker = &api.RunWorker{Identity: run.Worker, Attempt: int32(run.Attempt)}
	status.LastSequence = max(status.LastSequence, f.log.State.Head.Sequence) // a log that has lost its end does not make it less
	if ref := f.log.State.StateRef; ref != nil {
		status.Head = ref.Digest.String()
	}
	if ref := run.LastContext; ref != nil {
		status.Context = ref.Digest.String()
	}
	status.PendingApprovals = pendingApprovals(run)
	status.PendingApprovalsTotal = int32(len(status.PendingApprovals))
	f.budget(status)
	f.set(status, api.ConditionAccepted, metav1.ConditionTrue, api.RunReasonAccepted, "")
	if run.Terminal != nil {
		f.ended(status, run.Terminal)
		return status
	}
	reason, message := f.progress(run)
	f.set(status, api.ConditionSucceeded, metav1.ConditionUnknown, reason, message)
	f.set(status, api.ConditionFinished, metav1.ConditionFalse, api.RunReasonInProgress, "")
	return status
}

// progress says where a live run is.
func (f runFacts) progress(run *session.RunProgress) (reason, message string) {
	switch {
	case f.cancelling():
		return api.RunReasonCancelling, "the worker was told to stop"
	case run.Waiting != "":
		return run.Waiting, awaiting(run)
	case f.unsaved:
		return api.RunReasonPendingSave, "the object store or the run-event stream does not answer; what the run does is stored as soon as it does"
	case run.HandedBack:
		return api.RunReasonRecovering, "the worker stopped and gave the run back; another one takes it over"
	}
	return run.Phase, ""
}

func (f runFacts) budget(status *api.AgentRunStatus) {
	dispatched := true
	if f.log.Record != nil {
		status.ContextBudget = kube.BudgetOf(f.log.Record.Budget, &dispatched)
		status.ContextBudget.RequestOutputTokenLimit = f.log.State.Run.LastLimit
		status.InputSources = kube.SourcesOf(*f.log.Record)
	}
	if f.log.Refused != nil {
		dispatched = false
		status.ContextBudget = kube.BudgetOf(f.log.Refused.Budget, &dispatched)
	}
}

func (f runFacts) ended(status *api.AgentRunStatus, event *runevent.Event) {
	completed := seconds(f.log.State.Run.EndedAt)
	status.CompletionTime = &completed
	if event.Type == runevent.TypeRunFinished {
		status.Result = &api.RunResult{State: status.Head}
		if event.Result != nil {
			status.Result.Message = event.Result.Digest.String()
		}
		if f.session != nil && f.session.Spec.ResultPreview == api.PreviewOn {
			status.ResultPreview = f.log.Preview
		}
		f.set(status, api.ConditionSucceeded, metav1.ConditionTrue, api.RunReasonCompleted, "")
		f.set(status, api.ConditionFinished, metav1.ConditionTrue, api.RunReasonCompleted, "")
		return
	}
	if event.Reason == api.RunReasonInvalidInput {
		f.set(status, api.ConditionAccepted, metav1.ConditionFalse, event.Reason, event.Message)
	}
	if event.Class != "" {
		status.Failure = &api.RunFailure{Class: event.Class, HTTPStatus: int32(event.HTTPStatus), Retryable: event.Retryable}
		if event.Detail != nil {
			status.Failure.Detail = event.Detail.Digest.String()
		}
	}
	reason := event.Reason
	if reason == "" { // a condition cannot be without one
		reason = api.RunReasonInternalError
	}
	f.set(status, api.ConditionSucceeded, metav1.ConditionFalse, reason, event.Message)
	f.set(status, api.ConditionFinished, metav1.ConditionTrue, reason, "")
}
