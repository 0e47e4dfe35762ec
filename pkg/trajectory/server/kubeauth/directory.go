package kubeauth

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/pkg/trajectory/server"
)

// Directory implements server.Directory with the viewer's own account, which may get and list sessions and runs.
type Directory struct {
	client client.Client
	// namespaces are those that the account may read; none for all.
	namespaces []string
}

var _ server.Directory = (*Directory)(nil)

// NewDirectory returns a directory of the API server of config, of the named namespaces only if there are any. Nothing is
// cached: a session is shown as it is.
func NewDirectory(config *rest.Config, namespaces ...string) (*Directory, error) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("session types: %w", err)
	}
	// The kinds are known, so that no discovery is needed before the first request.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(api.GroupVersion.WithKind("AgentSession"), meta.RESTScopeNamespace)
	mapper.Add(api.GroupVersion.WithKind("AgentRun"), meta.RESTScopeNamespace)
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("session client: %w", err)
	}
	return &Directory{client: c, namespaces: namespaces}, nil
}

var uidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// searchPage is how many sessions one request for a UID reads.
const searchPage = 500

// Session implements server.Directory.
func (d *Directory) Session(ctx context.Context, namespace, ref string) (server.Session, error) {
	if !d.has(namespace) {
		return server.Session{}, server.ErrNotFound
	}
	var session api.AgentSession
	err := d.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref}, &session)
	if err == nil {
		return convert(&session), nil
	}
	if !apierrors.IsNotFound(err) {
		return server.Session{}, fmt.Errorf("get a session: %w", err)
	}
	if !uidForm.MatchString(ref) {
		return server.Session{}, server.ErrNotFound
	}
	return d.byUID(ctx, namespace, ref)
}

// byUID looks through a namespace: the API server does not select by UID.
func (d *Directory) byUID(ctx context.Context, namespace, uid string) (server.Session, error) {
	cursor := ""
	for {
		page, next, err := d.list(ctx, namespace, searchPage, cursor)
		if err != nil {
			return server.Session{}, err
		}
		for i := range page {
			if string(page[i].UID) == uid || page[i].HistoryUID() == uid {
				return convert(&page[i]), nil
			}
		}
		if next == "" {
			return server.Session{}, server.ErrNotFound
		}
		cursor = next
	}
}

// has says whether the directory is of that namespace, or of all of them, which is asked by the empty name.
func (d *Directory) has(namespace string) bool {
	return len(d.namespaces) == 0 || slices.Contains(d.namespaces, namespace)
}

// Sessions implements server.Directory. The order is that of the API server, of each namespace in turn where the directory
// is of some only.
func (d *Directory) Sessions(ctx context.Context, namespace string, limit int, cursor string) ([]server.Session, string, error) {
	read := d.list
	switch {
	case d.has(namespace):
	case namespace == "":
		read = func(ctx context.Context, _ string, limit int64, cursor string) ([]api.AgentSession, string, error) {
			return d.inTurn(ctx, limit, cursor)
		}
	default:
		return []server.Session{}, "", nil
	}
	page, next, err := read(ctx, namespace, int64(limit), cursor)
	if err != nil {
		return nil, "", err
	}
	sessions := make([]server.Session, len(page))
	for i := range page {
		sessions[i] = convert(&page[i])
	}
	return sessions, next, nil
}

func (d *Directory) list(ctx context.Context, namespace string, limit int64, cursor string) ([]api.AgentSession, string, error) {
	var page api.AgentSessionList
	opts := []client.ListOption{client.InNamespace(namespace), client.Limit(limit), client.Continue(cursor)}
	err := d.client.List(ctx, &page, opts...)
	switch {
	case apierrors.IsResourceExpired(err), cursor != "" && apierrors.IsBadRequest(err):
		return nil, "", server.ErrListExpired
	case err != nil:
		return nil, "", fmt.Errorf("list sessions: %w", err)
	}
	return page.Items, page.Continue, nil
}

// inTurn lists the directory's namespaces one after another. Its cursor names the namespace whose page is next, and the API
// server's own cursor there. A page ends with its namespace, but is never empty before the last one.
func (d *Directory) inTurn(ctx context.Context, limit int64, cursor string) ([]api.AgentSession, string, error) {
	first, inner, _ := strings.Cut(cursor, "/")
	at := 0
	if cursor != "" {
		if at = slices.Index(d.namespaces, first); at < 0 {
			return nil, "", server.ErrListExpired
		}
	}
	for ; at < len(d.namespaces); at++ {
		page, next, err := d.list(ctx, d.namespaces[at], limit, inner)
		switch {
		case err != nil:
			return nil, "", err
		case next != "":
			return page, d.namespaces[at] + "/" + next, nil
		case len(page) > 0 && at+1 < len(d.namespaces):
			return page, d.namespaces[at+1] + "/", nil
		case len(page) > 0:
			return page, "", nil
		}
		inner = ""
	}
	return nil, "", nil
}

// Ready says whether the API server answers the viewer's account.
func (d *Directory) Ready(ctx context.Context) error {
	var page api.AgentSessionList
	namespace := "" // all of them
	if len(d.namespaces) > 0 {
		namespace = d.namespaces[0]
	}
	if err := d.client.List(ctx, &page, client.InNamespace(namespace), client.Limit(1)); err != nil {
		return errors.Join(errors.New("sessions cannot be listed"), err)
	}
	return nil
}

func convert(s *api.AgentSession) server.Session {
	status := s.Status
	summary := server.Summary{
		ID: s.Namespace + ":" + s.Name, Namespace: s.Namespace, Name: s.Name, UID: s.HistoryUID(), Title: status.Title,
		CreatedAt: trajectory.Time(s.CreationTimestamp.UnixMicro()), Model: &trajectory.ModelName{Provider: s.Spec.Model.ProviderRef.Name, ID: s.Spec.Model.Model},
		Status: statusOf(s), Runs: status.RunsTotal, Messages: status.HistoryMessageCount,
	}
	if status.LastActivityTime != nil {
		summary.LastActivityAt = trajectory.Time(status.LastActivityTime.UnixMicro())
	}
	if status.ContextBudget != nil {
		summary.ContextBudget = status.ContextBudget
	}
	if status.Usage != nil {
		summary.Usage = status.Usage
	}
	return server.Session{Summary: summary, LastSequence: status.LastSequence}
}

func statusOf(s *api.AgentSession) *server.Status {
	out := &server.Status{Ready: "Unknown", QueuedRuns: s.Status.QueuedRuns}
	if ready := meta.FindStatusCondition(s.Status.Conditions, api.ConditionReady); ready != nil {
		out.Ready, out.Reason, out.Message = string(ready.Status), ready.Reason, ready.Message
	}
	if active := s.Status.ActiveRun; active != nil {
		out.ActiveRun = &trajectory.RunName{UID: active.UID, Name: active.Name}
	}
	return out
}
