package server

import (
	"context"
	"errors"

	"github.com/agentloop/agentloop/pkg/trajectory"
)

// ErrUnauthenticated is returned when a token is not valid.
var ErrUnauthenticated = errors.New("the token is not valid")

// ErrNotFound is returned when there is no such session.
var ErrNotFound = errors.New("no such session")

// ErrListExpired is returned when the cursor of a list of sessions is no longer valid.
var ErrListExpired = errors.New("the list's cursor has expired")

// User is who asks.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// Access is what somebody asks for.
type Access struct {
	Verb        string
	Subresource string
	// Namespace is empty for all namespaces; Name is the session as the request names it, empty for a list.
	Namespace, Name string
}

// Group and Resource are what every Access is about.
const (
	Group    = "agentloop.dev"
	Resource = "agentsessions"
)

// Gate decides who a caller is and what they may read.
//
// Authenticate returns ErrUnauthenticated for a token that is not valid. Any other error of either method means that it
// could not be decided; nobody is let in then. Both may answer from a memory of some seconds.
type Gate interface {
	Authenticate(ctx context.Context, token string) (User, error)
	Allowed(ctx context.Context, user User, access Access) (bool, error)
}

// Session is a session resource as far as the viewer needs it.
type Session struct {
	Summary Summary
	// LastSequence is how many run events the main agent's stream is known to have had.
	LastSequence int64
}

// Directory looks session resources up.
//
// Session finds a session by its name or by its UID, also by the UID of a history that it adopted; ErrNotFound when there
// is none. Sessions lists up to limit sessions of a namespace, or of all when it is empty, and the cursor of the next
// page, empty on the last one; ErrListExpired when the cursor is too old. Any other error means that the API server did
// not answer.
type Directory interface {
	Session(ctx context.Context, namespace, ref string) (Session, error)
	Sessions(ctx context.Context, namespace string, limit int, cursor string) ([]Session, string, error)
}

// Runs looks run resources up. EndedRuns returns the runs of a session that have ended, as their resources tell, with status,
// reason and message: a run that ended before a worker had it is told of nowhere else. An error means that the API server
// did not answer.
type Runs interface {
	EndedRuns(ctx context.Context, namespace, session string) ([]trajectory.Run, error)
}

// Summary describes a session resource.
type Summary struct {
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID is the name of the history in the stores.
	UID            string                `json:"uid"`
	Deleted        bool                  `json:"deleted"`
	Title          string                `json:"title,omitempty"`
	CreatedAt      trajectory.Time       `json:"createdAt,omitzero"`
	LastActivityAt trajectory.Time       `json:"lastActivityAt,omitzero"`
	Model          *trajectory.ModelName `json:"model,omitempty"`
	Status         *Status               `json:"status,omitempty"`
	Runs           int64                 `json:"runs,omitempty"`
	Messages       int64                 `json:"messages,omitempty"`
	// ContextBudget and Usage have the fields of the resource's status.contextBudget and status.usage.
	ContextBudget any `json:"contextBudget,omitempty"`
	Usage         any `json:"usage,omitempty"`
}

// Status is the Ready condition of a session and the run that is under way.
type Status struct {
	Ready      string              `json:"ready"`
	Reason     string              `json:"reason,omitempty"`
	Message    string              `json:"message,omitempty"`
	ActiveRun  *trajectory.RunName `json:"activeRun,omitempty"`
	QueuedRuns int32               `json:"queuedRuns,omitempty"`
}
