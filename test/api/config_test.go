package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/agentloop/agentloop/api/v1alpha1"
)

// TestSamples applies config/samples as users do, then again in both ways: neither defaults nor immutable fields may be in
// the way, and nothing may change.
func TestSamples(t *testing.T) {
	if out, err := kubectl(t, "create", "namespace", "samples"); err != nil {
		t.Fatal(out)
	}
	want := []string{
		"AgentRun release-notes-1 1", "AgentRun release-notes-compact 1", "AgentSession release-notes 1", "AgentSession sandboxed 1", "ModelProvider anthropic 1",
	}
	for _, mode := range []string{"--server-side=false", "--server-side=false", "--server-side=true"} {
		if out, err := kubectl(t, "apply", mode, "--namespace", "samples", "-f", "../../config/samples"); err != nil {
			t.Fatal(out)
		}
		out, err := kubectl(t, "get", "agentloop", "--namespace", "samples", "-o",
			`jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.generation}{"\n"}{end}`)
		if err != nil {
			t.Fatal(out)
		}
		got := strings.Split(strings.TrimSpace(out), "\n")
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("kind, name and generation after kubectl apply %s: -want +got\n%s", mode, diff)
		}
	}
	for command, want := range map[string]string{
		"get arun release-notes-1": "release-notes",
		"get asess release-notes":  "claude-sonnet-4-5",
		"get mprov anthropic":      "Anthropic",
		"get agentloop":            "agentrun.agentloop.dev/release-notes-compact",
		"get configmaps":           "release-notes-skills",
		"get deployment,service,networkpolicy sandbox-tools":                            "networkpolicy.networking.k8s.io/sandbox-tools",
		"get secrets --selector=" + v1alpha1.LabelCredential + "=" + v1alpha1.ValueTrue: "anthropic",
	} {
		out, err := kubectl(t, append(strings.Fields(command), "--namespace", "samples")...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("kubectl %s: %v, want %q in\n%s", command, err, want, out)
		}
	}
}

// TestRecipes applies the manifests of docs/recipes, again and in both ways.
func TestRecipes(t *testing.T) {
	if out, err := kubectl(t, "create", "namespace", "recipes"); err != nil {
		t.Fatal(out)
	}
	for _, mode := range []string{"--server-side=false", "--server-side=true"} {
		out, err := kubectl(t, "apply", mode, "--namespace", "recipes", "-f", "../../config/samples/providers", "-f", "../../config/samples/tools")
		if err != nil {
			t.Fatal(out)
		}
	}
	out, err := kubectl(t, "get", "agentloop", "--namespace", "recipes", "-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.generation}{"\n"}{end}`)
	if err != nil {
		t.Fatal(out)
	}
	want := []string{
		"AgentSession cluster-questions 1", "AgentSession everything 1", "AgentSession issues 1", "AgentSession notes 1", "AgentSession remembers 1",
		"ModelProvider anthropic 1", "ModelProvider gateway 1", "ModelProvider gateway-claude 1", "ModelProvider ollama 1", "ModelProvider openai 1",
		"ModelProvider openai-chat 1", "ModelProvider vllm 1",
	}
	got := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kind, name and generation: -want +got\n%s", diff)
	}
}

// TestExplain says that kubectl explain has words for the kinds and their fields.
func TestExplain(t *testing.T) {
	for field, want := range map[string]string{
		"agentrun":                               "one execution of a session's agent",
		"agentrun.spec.limits.maxTurns":          "how many turns the run may take",
		"agentsession.spec.toolServers.allow":    "Empty admits none",
		"modelprovider.spec.models.thinking":     "ENUM:",
		"agentrun.status.contextBudget.fits":     "remainingInputTokens is zero or more",
		"toolapproval.spec.approver":             "the name under which the API server knows who decides",
		"agentsession.status.contextBudget.fits": "remainingInputTokens is zero or more",
	} {
		out, err := kubectl(t, "explain", field)
		if err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("kubectl explain %s: %v, want %q in\n%s", field, err, want, out)
		}
	}
}

// access is a question to the API server's authoriser.
type access struct {
	user, verb, group, resource, subresource string
	want                                     bool
}

// TestRoles binds every role of config/rbac to a user of its own and asks the API server what each may do.
func TestRoles(t *testing.T) {
	const system = "agentloop-system"
	if out, err := kubectl(t, "create", "namespace", system); err != nil {
		t.Fatal(out)
	}
	if out, err := kubectl(t, "apply", "-f", "../../config/rbac"); err != nil {
		t.Fatal(out)
	}
	for _, role := range []string{"controllers", "workers", "viewer", "user", "platform", "trajectory-viewer", "trajectory-exporter", "adopter", "approver", "reader"} {
		if out, err := kubectl(t, "create", "clusterrolebinding", "test-"+role, "--clusterrole=agentloop-"+role, "--user="+role); err != nil {
			t.Fatal(out)
		}
	}
	if out, err := kubectl(t, "-n", system, "create", "rolebinding", "test-controllers", "--role=agentloop-controllers", "--user=controllers"); err != nil {
		t.Fatal(out)
	}
	const group = v1alpha1.GroupName
	cases := map[string]access{
		"controllers write status":                   {"controllers", "patch", group, "agentruns", "status", true},
		"controllers put finalizers on":              {"controllers", "patch", group, "agentsessions", "", true},
		"controllers remove expired runs":            {"controllers", "delete", group, "agentruns", "", true},
		"controllers do not create runs":             {"controllers", "create", group, "agentruns", "", false},
		"controllers do not list Secrets":            {"controllers", "list", "", "secrets", "", false},
		"workers create the runs of subagents":       {"workers", "create", group, "agentruns", "", true},
		"workers read Secrets one by one":            {"workers", "get", "", "secrets", "", true},
		"workers do not list Secrets":                {"workers", "list", "", "secrets", "", false},
		"workers write no status":                    {"workers", "patch", group, "agentruns", "status", false},
		"workers change no runs":                     {"workers", "patch", group, "agentruns", "", false},
		"the viewer lists sessions":                  {"viewer", "list", group, "agentsessions", "", true},
		"the viewer asks who a caller is":            {"viewer", "create", "authentication.k8s.io", "tokenreviews", "", true},
		"the viewer asks what a caller may do":       {"viewer", "create", "authorization.k8s.io", "subjectaccessreviews", "", true},
		"the viewer reads no Secrets":                {"viewer", "get", "", "secrets", "", false},
		"the viewer writes nothing":                  {"viewer", "patch", group, "agentsessions", "status", false},
		"users create runs":                          {"user", "create", group, "agentruns", "", true},
		"users do not write status":                  {"user", "patch", group, "agentruns", "status", false},
		"users do not write providers":               {"user", "patch", group, "modelproviders", "", false},
		"users do not read trajectories by that":     {"user", "get", group, "agentsessions", "trajectory", false},
		"users do not adopt by that":                 {"user", "adopt", group, "agentsessions", "", false},
		"the platform team writes providers":         {"platform", "create", group, "modelproviders", "", true},
		"trajectory viewers read trajectories":       {"trajectory-viewer", "get", group, "agentsessions", "trajectory", true},
		"trajectory viewers do not export":           {"trajectory-viewer", "get", group, "agentsessions", "trajectoryexport", false},
		"trajectory viewers create nothing":          {"trajectory-viewer", "create", group, "agentruns", "", false},
		"trajectory exporters export":                {"trajectory-exporter", "get", group, "agentsessions", "trajectoryexport", true},
		"adopters adopt":                             {"adopter", "adopt", group, "agentsessions", "", true},
		"adopters do not create sessions by that":    {"adopter", "create", group, "agentsessions", "", false},
		"controllers say what became of a decision":  {"controllers", "patch", group, "toolapprovals", "status", true},
		"controllers decide nothing":                 {"controllers", "create", group, "toolapprovals", "", false},
		"workers read decisions":                     {"workers", "list", group, "toolapprovals", "", true},
		"workers decide nothing":                     {"workers", "create", group, "toolapprovals", "", false},
		"workers change no decision":                 {"workers", "patch", group, "toolapprovals", "", false},
		"the viewer decides nothing":                 {"viewer", "create", group, "toolapprovals", "", false},
		"users see decisions":                        {"user", "list", group, "toolapprovals", "", true},
		"users do not decide":                        {"user", "create", group, "toolapprovals", "", false},
		"users do not take decisions back":           {"user", "delete", group, "toolapprovals", "", false},
		"approvers decide":                           {"approver", "create", group, "toolapprovals", "", true},
		"approvers see what waits":                   {"approver", "watch", group, "agentruns", "", true},
		"approvers do not change decisions":          {"approver", "patch", group, "toolapprovals", "", false},
		"approvers do not take decisions back":       {"approver", "delete", group, "toolapprovals", "", false},
		"approvers do not say what became of them":   {"approver", "patch", group, "toolapprovals", "status", false},
		"approvers do not create runs":               {"approver", "create", group, "agentruns", "", false},
		"approvers do not change runs":               {"approver", "patch", group, "agentruns", "", false},
		"approvers do not delete runs":               {"approver", "delete", group, "agentruns", "", false},
		"approvers do not create sessions":           {"approver", "create", group, "agentsessions", "", false},
		"approvers do not change sessions":           {"approver", "update", group, "agentsessions", "", false},
		"approvers read no Secrets":                  {"approver", "get", "", "secrets", "", false},
		"approvers do not read trajectories by that": {"approver", "get", group, "agentsessions", "trajectory", false},
		"readers see everything":                     {"reader", "list", group, "toolapprovals", "", true},
		"readers create no runs":                     {"reader", "create", group, "agentruns", "", false},
		"readers do not decide":                      {"reader", "create", group, "toolapprovals", "", false},
		"nobody decides without the role":            {"somebody", "create", group, "toolapprovals", "", false},
		"nobody reads trajectories without the role": {"somebody", "get", group, "agentsessions", "trajectory", false},
	}
	clients, err := kubernetes.NewForConfig(world.config)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.check(t, clients, namespace)
		})
	}
	t.Run("controllers elect a leader and say so in their own namespace only", func(t *testing.T) {
		for group, resource := range map[string]string{"coordination.k8s.io": "leases", "": "events"} {
			access{"controllers", "create", group, resource, "", true}.check(t, clients, system)
			access{"controllers", "create", group, resource, "", false}.check(t, clients, namespace)
		}
	})
}

// check asks the API server whether the user may do that in a namespace.
func (a access) check(t *testing.T, clients kubernetes.Interface, namespace string) {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: a.user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: a.verb, Group: a.group, Resource: a.resource, Subresource: a.subresource,
		},
	}}
	got, err := clients.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.Allowed != a.want {
		t.Errorf("%s %s in %s: allowed %v, want %v (%s)", a.verb, a.resource, namespace, got.Status.Allowed, a.want, got.Status.Reason)
	}
}

// TestNamesMayContainDots creates one object of each kind whose name is as long as names get, with dots.
func TestNamesMayContainDots(t *testing.T) {
	name := strings.Repeat("a.very.long-name.", 15)[:253]
	for kind, spec := range map[string]string{
		v1alpha1.KindModelProvider: smallestProvider,
		v1alpha1.KindAgentSession:  "model: {providerRef: {name: " + name + "}, model: m}",
		v1alpha1.KindAgentRun:      "sessionRef: {name: " + name + "}\ninput: {text: hi}",
		v1alpha1.KindToolApproval:  smallestApproval,
	} {
		t.Run(kind, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{"spec": parse(t, spec)}}
			u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
			u.SetName(name)
			if _, err := create(t, u); err != nil {
				t.Error(err)
			}
		})
	}
}
