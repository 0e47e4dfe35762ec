package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/agentloop/agentloop/pkg/trajectory"
)

// problem is an RFC 9457 problem: an error that the client is told.
type problem struct {
	Type           string          `json:"type"`
	Title          string          `json:"title"`
	Status         int             `json:"status"`
	Detail         string          `json:"detail,omitempty"`
	Instance       string          `json:"instance,omitempty"`
	Code           string          `json:"code"`
	RequiredAccess *requiredAccess `json:"requiredAccess,omitempty"`

	// retryAfter is in seconds; 0 for none. cause is for the log only.
	retryAfter int
	cause      error
}

// requiredAccess is the permission that is missing.
type requiredAccess struct {
	Verb        string `json:"verb"`
	Group       string `json:"group"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
}

func (p *problem) Error() string { return p.Title }

// Unwrap returns what the client is not told.
func (p *problem) Unwrap() error { return p.cause }

func newProblem(status int, code, title, detail string) *problem {
	return &problem{Type: "/problems/" + code, Title: title, Status: status, Detail: detail, Code: code}
}

func badRequest(detail string) *problem {
	return newProblem(http.StatusBadRequest, "badRequest", "The request is not valid", detail)
}

func unauthenticated(detail string) *problem {
	return newProblem(http.StatusUnauthorized, "unauthenticated", "Sign in to continue", detail)
}

func forbidden(access Access) *problem {
	p := newProblem(http.StatusForbidden, "forbidden", "You may not read this", "Ask for a role that allows "+access.String()+".")
	p.RequiredAccess = &requiredAccess{
		Verb: access.Verb, Group: Group, Resource: Resource, Subresource: access.Subresource, Namespace: access.Namespace, Name: access.Name,
	}
	return p
}

// String is the access in words, as kubectl auth can-i takes it.
func (a Access) String() string {
	out := a.Verb + " " + Resource
	if a.Subresource != "" {
		out += "/" + a.Subresource
	}
	if a.Namespace == "" {
		return out + " in all namespaces"
	}
	return out + " in namespace " + a.Namespace
}

func notFound(title string) *problem {
	return newProblem(http.StatusNotFound, "notFound", title, "")
}

func unavailable(cause error) *problem {
	p := newProblem(http.StatusServiceUnavailable, "unavailable", "A service behind the viewer does not answer", "Try again in some seconds.")
	p.retryAfter, p.cause = 5, cause
	return p
}

// problemOf is what the client is told about an error of a handler. What is not known is a failure of the log, the store
// or the API server: whatever is wrong with a record or an object is a notice and no error.
func problemOf(err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, ErrNotFound):
		return notFound("Session not found")
	case errors.Is(err, trajectory.ErrNoEntry):
		return notFound("This entry is not part of this session")
	case errors.Is(err, trajectory.ErrNoText):
		return notFound("Nothing was cut from this entry")
	case errors.Is(err, trajectory.ErrNoImage):
		return notFound("This entry has no image there")
	case errors.Is(err, trajectory.ErrNoAgent):
		return notFound("This session has no such agent")
	case errors.Is(err, trajectory.ErrCursor):
		return badRequest("The cursor is malformed.")
	case errors.Is(err, trajectory.ErrCursorExpired), errors.Is(err, ErrListExpired):
		return newProblem(http.StatusGone, "cursorExpired", "The cursor is no longer valid", "Begin anew without it.")
	case errors.Is(err, trajectory.ErrTooLarge):
		return newProblem(http.StatusRequestEntityTooLarge, "tooLarge", "The entry is too large for one answer", "The export has it.")
	case errors.Is(err, trajectory.ErrNotJSON):
		internal := newProblem(http.StatusInternalServerError, "internal", "The answer could not be made", "")
		internal.cause = err
		return internal
	}
	return unavailable(err)
}

// write sends the problem. A client that is gone gets nothing.
func (p *problem) write(w http.ResponseWriter, r *http.Request) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		return
	}
	told := *p
	told.Instance = requestID(r.Context())
	body, err := trajectory.Encode(told)
	if err != nil {
		body = []byte(`{"type":"/problems/internal","title":"The answer could not be made","status":500,"code":"internal"}`)
	}
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	header.Del("ETag")
	if p.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Bearer realm="agentloop"`)
	}
	if p.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client is gone when it fails
}
