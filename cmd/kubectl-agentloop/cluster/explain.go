package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

// ErrNotFound is returned, wrapped in words, when there is no object of the name.
var ErrNotFound = errors.New("not found")

// access is what was asked of the API server.
type access struct {
	verb, resource, name string
	// kind is set where names near to a missing one are worth telling.
	kind       string
	everywhere bool
}

// roleFor is a role of agentloop's that has what a command needs.
func (a access) role() string {
	switch {
	case a.resource == "toolapprovals":
		return "agentloop-approver"
	case a.verb == "get" || a.verb == "list" || a.verb == "watch":
		return "agentloop-reader"
	}
	return "agentloop-user"
}

// explained is an error in words with what the API server said behind it.
type explained struct {
	text  string
	cause error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.cause }

// explain puts an answer of the API server into words that say what to do.
func (c *Cluster) explain(ctx context.Context, err error, a access) error {
	switch {
	case apierrors.IsForbidden(err):
		return c.forbidden(ctx, err, a)
	case apierrors.IsUnauthorized(err):
		return &explained{"the API server does not accept your credentials: log in again", err}
	case apierrors.IsNotFound(err) && !namesObject(err):
		return &explained{"agentloop is not installed in this cluster: it does not know " + a.resource + "." + api.GroupName, err}
	case apierrors.IsNotFound(err):
		return &explained{c.missing(ctx, a), errors.Join(ErrNotFound, err)}
	}
	return fmt.Errorf("%s %s: %w", a.verb, strings.TrimSpace(a.resource+" "+a.name), err)
}

// namesObject tells an object that is missing from a resource that the API server does not have.
func namesObject(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return status.Status().Details.Name != "" && !slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

// forbidden says which permission is missing and how it is given. Where the API server's own sentence says more, as that of
// an admission policy, it is quoted.
func (c *Cluster) forbidden(ctx context.Context, err error, a access) error {
	if !strings.Contains(err.Error(), "cannot "+a.verb) {
		return err
	}
	who, where, bind := "you", "in namespace "+c.Namespace, "rolebinding"
	subject, flag := "--user=USER", " -n "+c.Namespace
	if name, whoErr := c.WhoAmI(ctx); whoErr == nil {
		who, subject = name, "--user="+name
		if account, found := strings.CutPrefix(name, "system:serviceaccount:"); found {
			subject = "--serviceaccount=" + account
		}
	}
	if a.everywhere {
		where, bind, flag = "in all namespaces", "clusterrolebinding", ""
	}
	return &explained{fmt.Sprintf("%s may not %s %s.%s %s. Somebody who may give roles can change that, for example with\n  kubectl create %s agentloop-NAME --clusterrole=%s %s%s",
		who, a.verb, a.resource, api.GroupName, where, bind, a.role(), subject, flag), err}
}

// missing says that there is no object of the name, and which ones there are.
func (c *Cluster) missing(ctx context.Context, a access) string {
	noun := map[string]string{api.KindAgentSession: "session", api.KindAgentRun: "run"}[a.kind]
	text := fmt.Sprintf("there is no %s %q in namespace %s", noun, a.name, c.Namespace)
	names := c.Names(ctx, a.kind)
	if near := Near(a.name, names); len(near) > 0 {
		return text + ". Did you mean " + strings.Join(near, ", ") + "?"
	}
	switch {
	case len(names) == 0:
		return text + "; none that you can see is there. Another namespace is chosen with -n"
	case len(names) > maxNames:
		return fmt.Sprintf("%s; there are %d others, see kubectl get %s -n %s", text, len(names), a.resource, c.Namespace)
	}
	return text + "; there are: " + strings.Join(names, ", ")
}

// maxNames is how many names an error lists.
const maxNames = 12

// Names are the names of a kind in the namespace, as far as the caller may see them.
func (c *Cluster) Names(ctx context.Context, kind string) []string {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(api.GroupVersion.WithKind(kind + "List"))
	if err := c.List(ctx, list, client.InNamespace(c.Namespace), client.Limit(500)); err != nil {
		return nil
	}
	names := make([]string, len(list.Items))
	for i, item := range list.Items {
		names[i] = item.Name
	}
	slices.Sort(names)
	return names
}

// Near are the names that were probably meant, the most likely ones first: those that differ in a few letters, and those
// that begin or end like the given one.
func Near(name string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, other := range names {
		d := distance(name, other)
		alike := len(name) >= 3 && (strings.HasPrefix(other, name) || strings.HasSuffix(other, name) || strings.HasPrefix(name, other))
		if d <= max(1, len(name)/4) || alike {
			found = append(found, candidate{other, d})
		}
	}
	slices.SortStableFunc(found, func(x, y candidate) int { return x.distance - y.distance })
	var out []string
	for _, c := range found[:min(len(found), 3)] {
		out = append(out, c.name)
	}
	return out
}

// distance is how many letters have to be changed, added, removed or swapped with the next one.
func distance(x, y string) int {
	rows := [3][]int{make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(x); i++ {
		before, last, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		rows = [3][]int{last, row, before}
	}
	return rows[1][len(y)]
}
