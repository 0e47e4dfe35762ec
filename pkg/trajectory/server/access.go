package server

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
)

// The parts of a session's id. Names are DNS subdomains, UIDs are names as well.
var (
	namespaceForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	nameForm      = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	uidForm       = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// maxToken is the longest token that is looked at.
const maxToken = 32 << 10

// user finds out who asks.
func (s *Server) user(ctx context.Context, r *http.Request) (User, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return User{}, unauthenticated("Send a token that the Kubernetes API server accepts, as a bearer token.")
	}
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return User{}, unauthenticated("Only bearer tokens are accepted.")
	}
	user, err := s.opts.Gate.Authenticate(ctx, token)
	if errors.Is(err, ErrUnauthenticated) {
		return User{}, unauthenticated("The token is not valid, or no longer.")
	}
	if err != nil {
		return User{}, unavailable(err)
	}
	traceOf(r.Context()).user = user.Name
	return user, nil
}

// allow lets a user in or returns why not.
func (s *Server) allow(ctx context.Context, r *http.Request, user User, access Access) error {
	t := traceOf(r.Context())
	t.namespace, t.session = access.Namespace, access.Name
	allowed, err := s.opts.Gate.Allowed(ctx, user, access)
	if err != nil {
		return unavailable(err)
	}
	if !allowed {
		return forbidden(access)
	}
	return nil
}

// sessionID is the request's session: a namespace, and a name or UID in it.
type sessionID struct{ namespace, ref string }

func sessionIDOf(r *http.Request) (sessionID, error) {
	namespace, ref, ok := strings.Cut(r.PathValue("id"), ":")
	if !ok || !namespaceForm.MatchString(namespace) || !nameForm.MatchString(ref) {
		return sessionID{}, badRequest("A session is named namespace:name or namespace:uid.")
	}
	return sessionID{namespace, ref}, nil
}

// enter authenticates the caller and decides whether they may read the session, before it is looked up.
func (s *Server) enter(ctx context.Context, r *http.Request, subresource string) (sessionID, error) {
	user, err := s.user(ctx, r)
	if err != nil {
		return sessionID{}, err
	}
	id, err := sessionIDOf(r)
	if err != nil {
		return sessionID{}, err
	}
	return id, s.allow(ctx, r, user, Access{Verb: "get", Subresource: subresource, Namespace: id.namespace, Name: id.ref})
}
