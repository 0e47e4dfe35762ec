// Package viewer reads trajectories over the viewer's HTTP API, and finds a way to it: an address that the user names, or a
// port-forward to its Service; with the kubeconfig's own token, or a short-lived one of an account.
//
// Guarantees: a token is sent to the viewer only, in a header, and never put into an address; an export counts as whole only
// when its transfer came to its end; an error says what to do.
package viewer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client asks one viewer.
type Client struct {
	// Base is the viewer's address without a slash at its end.
	Base string
	// Token returns the bearer token of each request.
	Token func(ctx context.Context) (string, error)
	HTTP  *http.Client
	// Namespace is that of the sessions that are asked about.
	Namespace string
	stop      func()
}

// Close ends the port-forward, if there is one.
func (c *Client) Close() {
	if c.stop != nil {
		c.stop()
	}
}

// Problem is an answer that says why there is none.
type Problem struct {
	Status         int    `json:"status"`
	Title          string `json:"title"`
	Detail         string `json:"detail"`
	Code           string `json:"code"`
	RequiredAccess *struct {
		Verb        string `json:"verb"`
		Group       string `json:"group"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
	} `json:"requiredAccess"`
	wait time.Duration
}

// Error says what is wrong and what to do.
func (p *Problem) Error() string {
	if a := p.RequiredAccess; p.Status == http.StatusForbidden && a != nil {
		what := a.Resource
		if a.Subresource != "" {
			what += "/" + a.Subresource
		}
		role := "agentloop-trajectory-viewer"
		if a.Subresource == "trajectoryexport" {
			role = "agentloop-trajectory-exporter"
		}
		return fmt.Sprintf("the viewer may not show you this: it takes %s on %s.%s in namespace %s, which the ClusterRole %s has; somebody who may give roles binds it there", a.Verb, what, a.Group, a.Namespace, role)
	}
	text := "the viewer answers: " + p.Title
	if p.Detail != "" {
		text += ". " + p.Detail
	}
	return text
}

// Missing says whether an error is the viewer's answer that there is no such thing.
func Missing(err error) bool { return hasStatus(err, http.StatusNotFound) }

// Expired says whether an error is the viewer's answer that a cursor belongs to a history that is no longer there.
func Expired(err error) bool { return hasStatus(err, http.StatusGone) }

// Passing says whether the viewer may answer soon: what it needs, or the way to it, is away.
func Passing(err error) bool {
	var p *Problem
	if errors.As(err, &p) {
		return p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests
	}
	var away *AwayError
	return errors.As(err, &away)
}

func hasStatus(err error, status int) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status == status
}

// AwayError is returned when no viewer answers.
type AwayError struct{ Err error }

// Error returns the reason.
func (e *AwayError) Error() string { return "the viewer does not answer: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *AwayError) Unwrap() error { return e.Err }

// session is the path of a session.
func (c *Client) session(name string) string {
	return "/api/sessions/" + url.PathEscape(c.Namespace+":"+name)
}

func (c *Client) open(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	address := c.Base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	token, err := c.Token(ctx)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := c.HTTP.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &AwayError{err}
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	return nil, problemOf(response)
}

// problemOf reads an answer that is none. What is no problem document comes from something in front of the viewer.
func problemOf(response *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10)) // what could be read says enough
	p := &Problem{}
	if json.Unmarshal(raw, p) != nil || p.Title == "" {
		*p = Problem{Title: response.Status, Detail: "The answer is not the viewer's: check --viewer-url."}
	}
	p.Status = response.StatusCode
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		p.wait = time.Duration(seconds) * time.Second
	}
	return p
}

// get reads an answer of bounded size.
func (c *Client) get(ctx context.Context, path string, query url.Values, into any) (json.RawMessage, error) {
	response, err := c.open(ctx, path, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, &AwayError{err}
	}
	if into == nil {
		return raw, nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("the answer of %s is not the viewer's (%w): check --viewer-url", c.Base, err)
	}
	return raw, nil
}

// Trajectory returns one page of a session's trajectory.
func (c *Client) Trajectory(ctx context.Context, session, after string) (*Page, error) {
	query := url.Values{}
	if after != "" {
		query.Set("after", after)
	}
	page := &Page{}
	_, err := c.get(ctx, c.session(session)+"/trajectory", query, page)
	return page, err
}

// Detail returns everything about one entry.
func (c *Client) Detail(ctx context.Context, session, id string) (*Detail, error) {
	detail := &Detail{}
	raw, err := c.get(ctx, c.session(session)+"/trajectory/detail", url.Values{"id": {id}}, detail)
	detail.Raw = raw
	return detail, err
}

// Messages returns a page of an agent's conversation: the newest messages, or those before a cursor.
func (c *Client) Messages(ctx context.Context, session, agent string, limit int, cursor string) (*Messages, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if agent != "" {
		query.Set("agent", agent)
	}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	page := &Messages{}
	_, err := c.get(ctx, c.session(session)+"/messages", query, page)
	return page, err
}

// Export copies the export of a session. The transfer is whole when no error is returned.
func (c *Client) Export(ctx context.Context, session string, query url.Values, to io.Writer) error {
	response, err := c.open(ctx, c.session(session)+"/trajectory/export", query)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if _, err := io.Copy(to, response.Body); err != nil {
		return fmt.Errorf("the export was broken off: %w", err)
	}
	return nil
}

// Reach asks for something that needs no permission, to know whether a viewer answers.
func (c *Client) Reach(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+"/healthz", nil)
	if err != nil {
		return err
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return &AwayError{err}
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return &AwayError{err}
	}
	if response.StatusCode != http.StatusOK || !bytes.HasPrefix(raw, []byte("ok")) {
		return &AwayError{fmt.Errorf("%s answers %s, which is not a viewer's sign of life", c.Base, response.Status)}
	}
	return nil
}

// Page is where the viewer shows a session.
func (c *Client) Page(session, view string) string {
	return PagePath(c.Namespace, session, view)
}

// PagePath is the path of a session in the viewer's page; view is empty for the conversation.
func PagePath(namespace, session, view string) string {
	path := "/projects/" + url.PathEscape(namespace) + "/sessions/" + url.PathEscape(session)
	return strings.TrimSuffix(path+"/"+view, "/")
}
