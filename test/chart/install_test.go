package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const session = `
apiVersion: agentloop.dev/v1alpha1
kind: AgentSession
metadata: {name: %s, namespace: team-a}
spec: {model: {providerRef: {name: p}, model: m}%s}
`

// TestLifecycle installs the chart, upgrades it, rolls it back, removes it and installs it again, as a platform team would.
func TestLifecycle(t *testing.T) {
	namespaces(t, "team-a", "team-b")
	t.Cleanup(func() {
		_, _ = kubectl(t, "delete", "crd", "--selector=app.kubernetes.io/name=agentloop", "--wait=false")
	})
	older := olderChart(t)
	values := []string{"--namespace", system, "--create-namespace", "--values", "testdata/values/default.yaml"}
	must(t)(helm(t, append([]string{"install", "agentloop", older}, values...)...))
	eventually(t, "Deployments make Pods that wait for a node", func() (bool, error) { return pending(t, map[string]int{"controllers": 2, "workers": 2, "viewer": 2}) })
	if got := description(t); got != "as it was" {
		t.Errorf("the definition that was installed says %q", got)
	}
	must(t)(call(t, fmt.Appendf(nil, session, "kept", ""), "kubectl", "apply", "-f", "-"))
	t.Run("policies", policies)

	must(t)(helm(t, append([]string{"upgrade", "agentloop", chart}, append(values, "--set", "workers.replicas=3")...)...))
	eventually(t, "an upgrade makes a third worker", func() (bool, error) { return pending(t, map[string]int{"controllers": 2, "workers": 3, "viewer": 2}) })
	if got := description(t); got == "as it was" {
		t.Error("the upgrade left the definitions as they were")
	}

	must(t)(helm(t, "rollback", "agentloop", "1", "--namespace", system))
	eventually(t, "the rollback takes it back", func() (bool, error) { return pending(t, map[string]int{"controllers": 2, "workers": 2, "viewer": 2}) })
	var history []struct {
		Revision int
		Status   string
	}
	if err := json.Unmarshal([]byte(must(t)(helm(t, "history", "agentloop", "--namespace", system, "--output", "json"))), &history); err != nil || len(history) != 3 || history[2].Status != "deployed" {
		t.Errorf("history: %+v, %v", history, err)
	}

	must(t)(helm(t, "uninstall", "agentloop", "--namespace", system))
	eventually(t, "nothing that runs is left", func() (bool, error) { return pending(t, map[string]int{}) })
	if out := must(t)(kubectl(t, "get", "clusterroles,clusterrolebindings,validatingadmissionpolicies", "--selector=app.kubernetes.io/instance=agentloop", "--output=name")); out != "" {
		t.Errorf("left behind:\n%s", out)
	}
	must(t)(kubectl(t, "get", "agentsession", "kept", "--namespace", "team-a"))

	must(t)(helm(t, append([]string{"install", "agentloop", chart}, values...)...))
	must(t)(kubectl(t, "get", "agentsession", "kept", "--namespace", "team-a"))
	must(t)(helm(t, "uninstall", "agentloop", "--namespace", system))
}

func namespaces(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := cluster.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// olderChart is a copy of the chart whose definition of sessions is another one.
func olderChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "agentloop")
	if err := os.CopyFS(dir, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "files/crds/agentloop.dev_agentsessions.yaml")
	text := read(t, path)
	changed := strings.Replace(text, "      openAPIV3Schema:\n", "      openAPIV3Schema:\n        title: as it was\n", 1)
	if changed == text {
		t.Fatal("the definition has no schema where it was expected")
	}
	if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// description is the title of the definition of sessions in the cluster.
func description(t *testing.T) string {
	t.Helper()
	return must(t)(kubectl(t, "get", "crd", "agentsessions.agentloop.dev", "--output=jsonpath={.spec.versions[0].schema.openAPIV3Schema.title}"))
}

// pending says whether the release's Pods are those that are wanted, by component, each waiting for a node that never comes,
// and each of a Deployment.
func pending(t *testing.T, want map[string]int) (bool, error) {
	t.Helper()
	list, err := cluster.client.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=agentloop"})
	if err != nil {
		return false, err
	}
	got := map[string]int{}
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp.IsZero() && p.Status.Phase == corev1.PodPending {
			got[p.Labels["app.kubernetes.io/component"]]++
		}
	}
	var deployments *appsv1.DeploymentList
	if deployments, err = cluster.client.AppsV1().Deployments(system).List(t.Context(), metav1.ListOptions{}); err != nil {
		return false, err
	}
	return cmp.Equal(want, got) && len(deployments.Items) == len(want), nil
}

// policies asks for what the admission policies refuse.
func policies(t *testing.T) {
	must(t)(kubectl(t, "create", "rolebinding", "ann", "--namespace=team-a", "--clusterrole=agentloop-user", "--user=ann"))
	must(t)(kubectl(t, "create", "rolebinding", "ann-decides", "--namespace=team-a", "--clusterrole=agentloop-approver", "--user=ann"))
	apply := func(manifest string) error {
		_, err := call(t, []byte(manifest), "kubectl", "create", "--as=ann", "-f", "-")
		return err
	}
	adopting := fmt.Sprintf(session, "adopting", ", adoptUID: 0d6f2a54-7f0c-4c52-9d0e-6a3b1c8e5f27")
	// The API server takes some seconds to enforce a policy that is new.
	eventually(t, "adopting a history is refused without the verb", func() (bool, error) {
		err := apply(adopting)
		if err == nil {
			must(t)(kubectl(t, "delete", "agentsession", "adopting", "--namespace=team-a"))
			return false, nil
		}
		return strings.Contains(err.Error(), "ann needs the verb adopt on agentsessions in team-a"), nil
	})
	if err := apply(fmt.Sprintf(session, "own", "")); err != nil {
		t.Errorf("a session of one's own: %v", err)
	}
	must(t)(kubectl(t, "create", "rolebinding", "ann-adopts", "--namespace=team-a", "--clusterrole=agentloop-adopter", "--user=ann"))
	eventually(t, "who has the verb adopts", func() (bool, error) { return apply(adopting) == nil, nil })
	const approval = `
apiVersion: agentloop.dev/v1alpha1
kind: ToolApproval
metadata: {name: decision, namespace: team-a}
spec:
  runRef: {name: r, uid: 0d6f2a54-7f0c-4c52-9d0e-6a3b1c8e5f27}
  toolCallID: c
  argumentsDigest: sha256:%s
  decision: Approve
  approver: %s
`
	digest := strings.Repeat("0", 64)
	if err := apply(fmt.Sprintf(approval, digest, "bob")); err == nil || !strings.Contains(err.Error(), "who decides is ann") {
		t.Errorf("a decision in another one's name: %v", err)
	}
	if err := apply(fmt.Sprintf(approval, digest, "ann")); err != nil {
		t.Errorf("a decision in one's own name: %v", err)
	}
}

// may asks the API server's authoriser.
func may(t *testing.T, user, namespace, verb, group, resource, subresource string) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource},
	}}
	got, err := cluster.client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Status.Allowed
}

// TestNamespaces installs the chart for two namespaces and asks what its accounts may do there and elsewhere.
func TestNamespaces(t *testing.T) {
	namespaces(t, "team-a", "team-b", "team-c")
	must(t)(helm(t, "install", "held", chart, "--namespace", system, "--create-namespace", "--values", "testdata/values/namespaces.yaml", "--set", "crds.install=false"))
	t.Cleanup(func() { _, _ = helm(t, "uninstall", "held", "--namespace", system) })
	const group = "agentloop.dev"
	account := func(name string) string { return "system:serviceaccount:" + system + ":held-" + name }
	for name, c := range map[string]struct {
		account, namespace, verb, resource, subresource string
		want                                            bool
	}{
		"controllers watch runs there":              {"controllers", "team-a", "watch", "agentruns", "", true},
		"controllers write status there":            {"controllers", "team-b", "patch", "agentruns", "status", true},
		"controllers watch no runs elsewhere":       {"controllers", "team-c", "watch", "agentruns", "", false},
		"controllers watch no runs everywhere":      {"controllers", "", "watch", "agentruns", "", false},
		"workers create the runs of subagents":      {"workers", "team-a", "create", "agentruns", "", true},
		"workers write no status":                   {"workers", "team-a", "patch", "agentruns", "status", false},
		"workers read no runs elsewhere":            {"workers", "team-c", "get", "agentruns", "", false},
		"the viewer lists sessions there":           {"viewer", "team-b", "list", "agentsessions", "", true},
		"the viewer lists no sessions elsewhere":    {"viewer", "team-c", "list", "agentsessions", "", false},
		"its account for people reads there":        {"viewer-access", "team-a", "get", "agentsessions", "trajectory", true},
		"its account for people is blind elsewhere": {"viewer-access", "team-c", "get", "agentsessions", "trajectory", false},
		"its account for people exports nothing":    {"viewer-access", "team-a", "get", "agentsessions", "trajectoryexport", false},
	} {
		if got := may(t, account(c.account), c.namespace, c.verb, group, c.resource, c.subresource); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if may(t, account("controllers"), "team-c", "get", "", "secrets", "") || !may(t, account("controllers"), "team-a", "get", "", "secrets", "") {
		t.Error("Secrets: the controllers may read those of the named namespaces, and no others")
	}
	if !may(t, account("viewer"), "", "create", "authentication.k8s.io", "tokenreviews", "") {
		t.Error("the viewer may not ask whose a token is")
	}
	must(t)(kubectl(t, "create", "rolebinding", "eve", "--namespace=team-a", "--clusterrole=edit", "--user=eve"))
	eventually(t, "who may edit a namespace may run agents there", func() (bool, error) { return may(t, "eve", "team-a", "create", group, "agentruns", ""), nil })
	for what, allowed := range map[string]bool{
		"trajectories": may(t, "eve", "team-a", "get", group, "agentsessions", "trajectory"), "approvals": may(t, "eve", "team-a", "create", group, "toolapprovals", ""),
		"adoption": may(t, "eve", "team-a", "adopt", group, "agentsessions", ""), "providers": may(t, "eve", "team-a", "create", group, "modelproviders", ""),
	} {
		if allowed {
			t.Errorf("who may edit a namespace has %s with that", what)
		}
	}
}
