package worker

import (
	"context"
	"errors"
	"time"

	"github.com/agentloop/agentloop/pkg/agent"
)

// Kind says what a work item asks for. Whoever takes an item looks at the resource as well: the kind only tells why the
// item was put.
type Kind string

// The kinds of work items.
const (
	KindRun    Kind = "run"
	KindResume Kind = "resume"
	KindCancel Kind = "cancel"
	KindSeal   Kind = "seal"
)

// Item is one entry of the work queue: a run that needs a worker. There is at most one per run.
type Item struct {
	Namespace   string `json:"namespace"`
	RunUID      string `json:"runUID"`
	RunName     string `json:"runName"`
	SessionUID  string `json:"sessionUID"`
	SessionName string `json:"sessionName"`
	AgentKey    string `json:"agentKey"`
	Kind        Kind   `json:"kind"`
}

// Delivery is an item that this worker holds until it settles it or stops telling that it is at work.
//
// InProgress extends the hold and must be called more often than the queue's wait. Ack removes the item for good and
// returns when the queue has said so. Nak gives it back, to be delivered again after delay.
type Delivery interface {
	Item() Item
	InProgress(ctx context.Context) error
	Ack(ctx context.Context) error
	Nak(ctx context.Context, delay time.Duration) error
}

// Queue hands out items. Fetch blocks until there is one or ctx ends; an item is delivered to one worker at a time.
type Queue interface {
	Fetch(ctx context.Context) (Delivery, error)
}

// ErrGone is returned when the run's resource, or its session, no longer exists and nothing is left to do for it.
var ErrGone = errors.New("run is gone")

// NotReadyError is returned by Source when the run cannot start yet; the item is given back and tried again.
type NotReadyError struct{ Reason, Message string }

// Error returns reason and message.
func (e *NotReadyError) Error() string { return e.Reason + ": " + e.Message }

// Job is everything that is needed to execute a run, secrets resolved.
type Job struct {
	Run agent.Run
	// Deps has Model, Tools, Approvals, Children and Quota set; the worker fills in the rest.
	Deps agent.Deps
	// Ending, when set, ends the run instead of executing it: agent.ErrCancelled, agent.ErrSessionDeleted or
	// agent.ErrDeadline, for which Run.Config.Limits has the deadline. Deps may then be empty.
	Ending error
}

// Source reads a run's specification. It returns ErrGone, a *NotReadyError, or another error that is worth a retry.
type Source interface {
	Load(ctx context.Context, item Item) (Job, error)
}

// Cancels tells when a run is to end before its time. Watch calls end at most once with the cause (agent.ErrCancelled,
// agent.ErrSessionDeleted, or an *agent.Failure for a run whose resource shows it as ended): before it returns if that holds
// already, else from another goroutine, which end must not keep waiting. After stop has returned end is not called.
type Cancels interface {
	Watch(item Item, end func(cause error)) (stop func())
}
