package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/trajectory"
)

// The bounds of page sizes.
const (
	defaultList    = 200
	maxList        = 1000
	defaultEntries = 5000
	maxEntries     = 10000
	maxCursor      = 4096
	maxEntryID     = 512
)

// storedType is the media type of what is stored, in difference to what is said about it.
const storedType = "application/vnd.agentloop.stored+json"

// params checks that a request has no other parameters than the given ones.
func params(r *http.Request, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("The query is malformed.")
	}
	for name, given := range values {
		if len(given) > 1 {
			return nil, badRequest(fmt.Sprintf("The parameter %q is given twice.", name))
		}
		if !contains(known, name) {
			return nil, badRequest(fmt.Sprintf("The parameter %.64q is not known; known are: %s.", name, strings.Join(known, ", ")))
		}
	}
	return values, nil
}

func contains(list []string, s string) bool {
	for _, one := range list {
		if one == s {
			return true
		}
	}
	return false
}

// limitOf is the parameter limit.
func limitOf(values url.Values, fallback, most int) (int, error) {
	if !values.Has("limit") {
		return fallback, nil
	}
	limit, err := strconv.Atoi(values.Get("limit"))
	if err != nil || limit < 1 || limit > most {
		return 0, badRequest(fmt.Sprintf("limit is a number from 1 to %d.", most))
	}
	return limit, nil
}

func cursorOf(values url.Values, name string) (string, error) {
	cursor := values.Get(name)
	if len(cursor) > maxCursor {
		return "", badRequest(name + " is too long.")
	}
	return cursor, nil
}

func (s *Server) listSessions(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := s.bounded(w, r)
	defer cancel()
	user, err := s.user(ctx, r)
	if err != nil {
		return err
	}
	values, err := params(r, "namespace", "limit", "cursor")
	if err != nil {
		return err
	}
	namespace := values.Get("namespace")
	if namespace != "" && !namespaceForm.MatchString(namespace) {
		return badRequest("namespace is not the name of a namespace.")
	}
	limit, err := limitOf(values, defaultList, maxList)
	if err != nil {
		return err
	}
	cursor, err := cursorOf(values, "cursor")
	if err != nil {
		return err
	}
	if err := s.allow(ctx, r, user, Access{Verb: "list", Namespace: namespace}); err != nil {
		return err
	}
	sessions, next, err := s.opts.Directory.Sessions(ctx, namespace, limit, cursor)
	if err != nil {
		return err
	}
	items := make([]Summary, len(sessions))
	for i, session := range sessions {
		items[i] = session.Summary
	}
	return document(w, r, struct {
		Items []Summary `json:"items"`
		Next  string    `json:"next,omitempty"`
	}{items, next})
}

// found is a session that the caller may read, with its index.
type found struct {
	summary Summary
	index   *trajectory.Index
	// unstarted are runs that ended and that the log does not know.
	unstarted []trajectory.Run
}

// find looks up a session whose access was decided. One whose resource is gone is found by its UID as long as its run
// events were kept.
func (s *Server) find(ctx context.Context, id sessionID, stale bool) (found, error) {
	session, err := s.opts.Directory.Session(ctx, id.namespace, id.ref)
	if errors.Is(err, ErrNotFound) && uidForm.MatchString(id.ref) {
		session = Session{Summary: Summary{ID: id.namespace + ":" + id.ref, Namespace: id.namespace, UID: id.ref, Deleted: true}}
		err = nil
	}
	if err != nil {
		return found{}, err
	}
	scope := cas.Scope{Namespace: session.Summary.Namespace, Session: session.Summary.UID}
	if scope.Validate() != nil {
		return found{}, ErrNotFound
	}
	index, err := s.indexes.get(ctx, want{scope: scope, sequence: session.LastSequence, stale: stale})
	if err != nil {
		return found{}, err
	}
	if session.Summary.Deleted && index.Empty() {
		return found{}, ErrNotFound
	}
	return found{summary: session.Summary, index: index}, nil
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (s *Server) getSession(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := s.bounded(w, r)
	defer cancel()
	id, err := s.enter(ctx, r, "trajectory")
	if err != nil {
		return err
	}
	if _, err := params(r); err != nil {
		return err
	}
	session, err := s.find(ctx, id, false)
	if err != nil {
		return err
	}
	tag := s.tag(r, session)
	if unchanged(w, r, tag) {
		return nil
	}
	return tagged(w, tag, struct {
		Session Summary             `json:"session"`
		Agents  []trajectory.Agent  `json:"agents"`
		Notices []trajectory.Notice `json:"notices"`
	}{session.summary, nonNil(session.index.Agents), nonNil(session.index.Notices)})
}

// before is the cursor of a page of messages.
type before struct {
	Version int    `json:"v"`
	Session string `json:"s"`
	Agent   string `json:"a"`
	Before  int    `json:"b"`
}

func (s *Server) getMessages(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := s.bounded(w, r)
	defer cancel()
	id, err := s.enter(ctx, r, "trajectory")
	if err != nil {
		return err
	}
	values, err := params(r, "agent", "limit", "cursor")
	if err != nil {
		return err
	}
	limit, err := limitOf(values, defaultList, maxList)
	if err != nil {
		return err
	}
	session, err := s.find(ctx, id, false)
	if err != nil {
		return err
	}
	place, err := beforeOf(values, session)
	if err != nil {
		return err
	}
	tag := s.tag(r, session)
	if unchanged(w, r, tag) {
		return nil
	}
	history, err := s.history(ctx, session, place, limit)
	if err != nil {
		return err
	}
	var previous string
	if len(history.Messages) > 0 && history.Messages[0].Index > 0 {
		place.Before = history.Messages[0].Index
		raw, err := json.Marshal(place)
		if err != nil {
			return fmt.Errorf("%w: %w", trajectory.ErrNotJSON, err)
		}
		previous = base64.RawURLEncoding.EncodeToString(raw)
	}
	if len(history.Notices) > 0 {
		tag = "" // an object that is missing now may be there again
	}
	return tagged(w, tag, struct {
		Agent    string                      `json:"agent"`
		Total    int                         `json:"total"`
		Messages []trajectory.HistoryMessage `json:"messages"`
		Previous string                      `json:"previous,omitempty"`
		Notices  []trajectory.Notice         `json:"notices"`
	}{history.Agent, history.Total, history.Messages, previous, history.Notices})
}

// beforeOf is where a page of messages ends: Before below 0 is the end of the conversation.
func beforeOf(values url.Values, session found) (before, error) {
	place := before{Version: 1, Session: session.index.Scope.Session, Agent: "main", Before: -1}
	if agent := values.Get("agent"); agent != "" {
		place.Agent = agent
	}
	return placeOf(values, place, func(given before) (int, bool) {
		return given.Before, given.Version == place.Version && given.Session == place.Session && given.Agent == place.Agent
	})
}

// placeOf reads where a page begins from a request's cursor, or returns the first place when there is none. check returns
// the number in a place, which is not below 0, and whether the place is of what is asked for.
func placeOf[P any](values url.Values, first P, check func(P) (int, bool)) (P, error) {
	cursor, err := cursorOf(values, "cursor")
	if cursor == "" || err != nil {
		return first, err
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return first, trajectory.ErrCursor
	}
	var given P
	if json.Unmarshal(raw, &given) != nil {
		return first, trajectory.ErrCursor
	}
	switch number, fits := check(given); {
	case number < 0:
		return first, trajectory.ErrCursor
	case !fits:
		return first, trajectory.ErrCursorExpired
	}
	return given, nil
}

// history reads a page of a conversation. A session that has not run yet has an empty one.
func (s *Server) history(ctx context.Context, session found, place before, limit int) (trajectory.History, error) {
	if place.Agent == "main" && len(session.index.Agents) == 0 {
		return trajectory.History{Agent: "main", Messages: []trajectory.HistoryMessage{}, Notices: nonNil(session.index.Notices)}, nil
	}
	return s.reader.History(ctx, session.index, place.Agent, place.Before, limit)
}

// listingHead is one page of the index, but for its entries.
type listingHead struct {
	Session  Summary                 `json:"session"`
	Agents   []trajectory.Agent      `json:"agents"`
	Runs     []trajectory.Run        `json:"runs"`
	Notices  []trajectory.Notice     `json:"notices"`
	RealTime trajectory.RealTime     `json:"realTime"`
	Counts   trajectory.Counts       `json:"counts"`
	Head     []trajectory.StreamHead `json:"head"`
	Next     string                  `json:"next,omitempty"`
	Cursor   string                  `json:"cursor"`
}

func (s *Server) getTrajectory(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := s.bounded(w, r)
	defer cancel()
	id, err := s.enter(ctx, r, "trajectory")
	if err != nil {
		return err
	}
	values, err := params(r, "after", "limit")
	if err != nil {
		return err
	}
	limit, err := limitOf(values, defaultEntries, maxEntries)
	if err != nil {
		return err
	}
	after, err := cursorOf(values, "after")
	if err != nil {
		return err
	}
	session, err := s.find(ctx, id, trajectory.Continues(after))
	if err != nil {
		return err
	}
	page, err := session.index.Page(after, limit)
	if err != nil {
		return err
	}
	if !trajectory.Continues(after) {
		if session.unstarted, err = s.unstarted(ctx, session); err != nil {
			return err
		}
		page.Runs = append(page.Runs, session.unstarted...)
	}
	tag := s.tag(r, session)
	if unchanged(w, r, tag) {
		return nil
	}
	index := session.index
	buf := listings.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer listings.Put(buf)
	body, err := trajectory.EncodeListing((*buf)[:0], listingHead{
		Session: session.summary, Agents: nonNil(page.Agents), Runs: page.Runs, Notices: nonNil(index.Notices), RealTime: index.RealTime,
		Counts: index.Counts, Head: nonNil(index.Head), Next: page.Next, Cursor: page.Cursor,
	}, page.Entries, page.Untimed)
	*buf = body
	return sendTagged(w, tag, body, err)
}

// listings are the buffers in which pages of the index are made: each is some megabytes long, and would soon be garbage as large
// as an index.
var listings = sync.Pool{New: func() any { return new([]byte) }}

// unstarted are the session's runs that ended before a worker had them: they left no run event. Resources are only asked
// for when the session counts more runs than the log has.
func (s *Server) unstarted(ctx context.Context, session found) ([]trajectory.Run, error) {
	known := map[string]bool{}
	for _, run := range session.index.AllRuns() {
		known[run.UID] = true
	}
	if s.opts.Runs == nil || session.summary.Name == "" || int64(len(known)) >= session.summary.Runs {
		return nil, nil
	}
	ended, err := s.opts.Runs.EndedRuns(ctx, session.summary.Namespace, session.summary.Name)
	if err != nil {
		return nil, err
	}
	var out []trajectory.Run
	for _, run := range ended {
		if !known[run.UID] {
			out = append(out, run)
		}
	}
	slices.SortFunc(out, func(a, b trajectory.Run) int {
		return cmp.Or(cmp.Compare(a.EndedAt, b.EndedAt), cmp.Compare(a.UID, b.UID))
	})
	return out, nil
}

func (s *Server) getDetail(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := s.bounded(w, r)
	defer cancel()
	id, entry, values, err := s.entryOf(ctx, r, "raw")
	if err != nil {
		return err
	}
	raw := values.Get("raw")
	if raw != "" && raw != "true" && raw != "false" {
		return badRequest("raw is true or false.")
	}
	session, err := s.find(ctx, id, false)
	if err != nil {
		return err
	}
	if raw == "true" {
		stored, err := s.reader.Raw(ctx, session.index, entry, s.opts.DetailBytes)
		if err != nil {
			return err
		}
		body, err := trajectory.Redact(stored)
		if err != nil {
			return err
		}
		send(w, r, storedType, body)
		return nil
	}
	tag := s.tag(r, session)
	if session.index.Has(entry) && unchanged(w, r, tag) {
		return nil
	}
	detail, err := s.reader.Detail(ctx, session.index, entry, s.opts.DetailBytes)
	if err != nil {
		return err
	}
	if len(detail.Notices) > 0 {
		tag = "" // an object that is missing now may be there again
	}
	return tagged(w, tag, detail)
}
