// Package viewer tests who may read trajectories, against a real API server: its TokenReview and SubjectAccessReview
// decide, with the roles of config/rbac.
package viewer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/agentloop/agentloop/api/openapi"
	"github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/pkg/trajectory/server"
	"github.com/agentloop/agentloop/pkg/trajectory/server/kubeauth"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// cluster is the API server that all tests share.
var cluster struct {
	config *rest.Config
	client *kubernetes.Clientset
	own    client.Client
	// viewer is the configuration of the viewer's own account.
	viewer *rest.Config
	// signer is the file with the key that the API server signs tokens with.
	signer string
}

const system = "agentloop-system"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: run KUBEBUILDER_ASSETS=$(hack/envtest/setup.sh) go test ./test/viewer/... from the top folder")
		return 1
	}
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{"../../config/crd"}, ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: 2 * time.Minute,
	}
	config, err := env.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	code := 1
	if err := prepare(context.Background(), env, config); err != nil {
		fmt.Fprintln(os.Stderr, "prepare the API server:", err)
	} else {
		code = m.Run()
	}
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the API server:", err)
		return 1
	}
	return code
}

// prepare installs the roles and the viewer's account, and a session whose history is the story's.
func prepare(ctx context.Context, env *envtest.Environment, config *rest.Config) error {
	config.QPS, config.Burst = -1, -1
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	var err error
	cluster.config, cluster.signer = config, filepath.Join(env.ControlPlane.GetAPIServer().CertDir, "sa-signer.key")
	if cluster.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if cluster.own, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	for _, name := range []string{system, story.Namespace, "other"} {
		if _, err := cluster.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if err := applyRoles(ctx, env); err != nil {
		return err
	}
	if err := account(ctx, system, "agentloop-viewer"); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "agentloop-viewer"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "agentloop-viewer", Namespace: system}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "agentloop-viewer"},
	}
	if _, err := cluster.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	token, err := tokenOf(ctx, system, "agentloop-viewer")
	if err != nil {
		return err
	}
	cluster.viewer = rest.AnonymousClientConfig(config)
	cluster.viewer.BearerToken = token
	cluster.viewer.QPS, cluster.viewer.Burst = -1, -1
	return createSessions(ctx)
}

func applyRoles(ctx context.Context, env *envtest.Environment) error {
	admin, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return err
	}
	kubectl, err := admin.Kubectl()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, kubectl.Path, append(kubectl.Opts, "apply", "-f", filepath.Join("..", "..", "config", "rbac"))...)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func createSessions(ctx context.Context) error {
	for _, s := range []struct{ namespace, name, adopt string }{
		{story.Namespace, "sample", story.Session}, {story.Namespace, "fresh.one", ""}, {story.Namespace, "third", ""}, {"other", "x", ""},
	} {
		session := &v1alpha1.AgentSession{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
		session.Spec.Model = v1alpha1.SessionModel{ProviderRef: v1alpha1.ProviderRef{Name: "p"}, Model: "m"}
		session.Spec.AdoptUID = s.adopt
		if err := cluster.own.Create(ctx, session); err != nil {
			return err
		}
	}
	return nil
}

func account(ctx context.Context, namespace, name string) error {
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := cluster.client.CoreV1().ServiceAccounts(namespace).Create(ctx, object, metav1.CreateOptions{})
	return err
}

func tokenOf(ctx context.Context, namespace, name string, audiences ...string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	response, err := cluster.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return response.Status.Token, nil
}

// reader makes an account with the given roles in a namespace and returns its token.
func reader(t *testing.T, name, namespace string, roles ...string) string {
	t.Helper()
	ctx := t.Context()
	if err := account(ctx, namespace, name); err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
		if _, err := cluster.client.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	token, err := tokenOf(ctx, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// serve runs the API under the viewer's own account, over the sample story with images and a long text. It returns its address.
func serve(t *testing.T, opts kubeauth.Options) string {
	t.Helper()
	gate, err := kubeauth.NewGate(cluster.viewer, opts)
	if err != nil {
		t.Fatal(err)
	}
	directory, err := kubeauth.NewDirectory(cluster.viewer)
	if err != nil {
		t.Fatal(err)
	}
	told, err := story.Attached(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	handler, err := server.New(server.Options{
		Gate: gate, Directory: directory, Runs: directory, Log: told.Log, Store: told.Store, Document: openapi.Trajectory, Ready: directory.Ready,
		Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	httpServer := httptest.NewServer(handler)
	t.Cleanup(httpServer.Close)
	return httpServer.URL
}

// get returns the status and body of an answer.
func get(t *testing.T, url, token string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body.Bytes()
}

func TestWhoMayReadWhat(t *testing.T) {
	url := serve(t, kubeauth.Options{})
	tokens := map[string]string{
		"nobody":   "",
		"nonsense": "nonsense",
		"stranger": reader(t, "stranger", story.Namespace),
		"user":     reader(t, "plain-user", story.Namespace, "agentloop-user"),
		"reader":   reader(t, "reader", story.Namespace, "agentloop-trajectory-viewer"),
		"exporter": reader(t, "exporter", story.Namespace, "agentloop-trajectory-viewer", "agentloop-trajectory-exporter"),
	}
	const sample = "/api/sessions/team:sample"
	cases := map[string]map[string]int{
		"/readyz":              {"nobody": 200},
		sample:                 {"nobody": 401, "nonsense": 401, "stranger": 403, "user": 403, "reader": 200, "exporter": 200},
		sample + "/messages":   {"stranger": 403, "reader": 200},
		sample + "/trajectory": {"nobody": 401, "stranger": 403, "user": 403, "reader": 200},
		sample + "/trajectory/detail?id=run.main.13":                    {"stranger": 403, "reader": 200},
		sample + "/trajectory/detail?id=run.main.99":                    {"stranger": 403, "reader": 404},
		sample + "/trajectory/export":                                   {"nobody": 401, "user": 403, "reader": 403, "exporter": 200},
		"/api/sessions?namespace=team":                                  {"nobody": 401, "stranger": 403, "user": 200, "reader": 200},
		"/api/sessions":                                                 {"reader": 403, "exporter": 403},
		"/api/sessions?namespace=other":                                 {"reader": 403},
		"/api/sessions/other:x":                                         {"reader": 403, "exporter": 403},
		"/api/sessions/other:not-there":                                 {"reader": 403, "exporter": 403},
		"/api/sessions/team:not-there":                                  {"stranger": 403, "reader": 404},
		"/api/sessions/team:" + story.Session + "/trajectory":           {"stranger": 403, "reader": 200},
		"/api/sessions/team:0d6f2a54-0000-4c52-9d0e-6a3b1c8e5f27":       {"stranger": 403, "reader": 404},
		"/api/sessions/team:fresh.one/trajectory":                       {"reader": 200},
		"/api/sessions/team:fresh.one/trajectory/detail?id=run.main.13": {"reader": 404},
	}
	for path, who := range cases {
		for name, want := range who {
			if got, body := get(t, url+path, tokens[name]); got != want {
				t.Errorf("%s as %s: %d, want %d: %.300s", path, name, got, want, body)
			}
		}
	}
}

func TestWhatASessionSays(t *testing.T) {
	url := serve(t, kubeauth.Options{})
	token := reader(t, "curious", story.Namespace, "agentloop-trajectory-viewer")
	var session struct {
		Session server.Summary `json:"session"`
		Agents  []struct {
			ID string `json:"id"`
		} `json:"agents"`
	}
	_, body := get(t, url+"/api/sessions/team:sample", token)
	if err := json.Unmarshal(body, &session); err != nil {
		t.Fatal(err)
	}
	s := session.Session
	if s.Name != "sample" || s.UID != story.Session || s.Deleted || s.Model.ID != "m" || s.Status.Ready != "Unknown" || len(session.Agents) != 1 {
		t.Errorf("session is %s", body)
	}
	var list struct {
		Items []server.Summary `json:"items"`
		Next  string           `json:"next"`
	}
	var names []string
	for cursor := ""; ; cursor = list.Next {
		list.Next = ""
		_, body := get(t, url+"/api/sessions?namespace=team&limit=1&cursor="+cursor, token)
		if err := json.Unmarshal(body, &list); err != nil || len(list.Items) != 1 {
			t.Fatalf("%v: %s", err, body)
		}
		names = append(names, list.Items[0].Name)
		if list.Next == "" {
			break
		}
	}
	if fmt.Sprint(names) != "[fresh.one sample third]" {
		t.Errorf("sessions are %v", names)
	}
	if status, body := get(t, url+"/api/sessions?namespace=team&cursor=nonsense", token); status != http.StatusGone {
		t.Errorf("a cursor of nobody: %d: %s", status, body)
	}
}

// TestRevocation takes a permission away: what was remembered holds for seconds and no longer.
func TestRevocation(t *testing.T) {
	var now time.Duration
	url := serve(t, kubeauth.Options{Yes: 10 * time.Second, No: 5 * time.Second, Now: func() time.Time { return time.Now().Add(now) }})
	token := reader(t, "leaver", story.Namespace, "agentloop-trajectory-viewer")
	expect := func(what string, want int) {
		t.Helper()
		if got, body := get(t, url+"/api/sessions/team:sample", token); got != want {
			t.Errorf("%s: %d, want %d: %.300s", what, got, want, body)
		}
	}
	expect("at first", 200)
	err := cluster.client.RbacV1().RoleBindings(story.Namespace).Delete(t.Context(), "leaver-agentloop-trajectory-viewer", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitForDenial(t, "system:serviceaccount:team:leaver")
	now += 11 * time.Second
	expect("when the role is gone", 403)
}

// TestTheTokenOfAnAccountThatIsGone waits for the API server, which remembers tokens for some seconds itself.
func TestTheTokenOfAnAccountThatIsGone(t *testing.T) {
	url := serve(t, kubeauth.Options{Yes: time.Nanosecond, No: time.Nanosecond})
	token := reader(t, "gone", story.Namespace, "agentloop-trajectory-viewer")
	if err := cluster.client.CoreV1().ServiceAccounts(story.Namespace).Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its token is refused", func() bool {
		status, _ := get(t, url+"/api/sessions/team:sample", token)
		return status == http.StatusUnauthorized
	})
}

func TestTokensForOthers(t *testing.T) {
	url := serve(t, kubeauth.Options{Audiences: []string{"agentloop-viewer"}})
	reader(t, "audience", story.Namespace, "agentloop-trajectory-viewer")
	for audience, want := range map[string]int{"agentloop-viewer": 200, "somebody-else": 401} {
		token, err := tokenOf(t.Context(), story.Namespace, "audience", audience)
		if err != nil {
			t.Fatal(err)
		}
		if got, body := get(t, url+"/api/sessions/team:sample", token); got != want {
			t.Errorf("a token for %s: %d, want %d: %s", audience, got, want, body)
		}
	}
	plain, err := tokenOf(t.Context(), story.Namespace, "audience")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := get(t, url+"/api/sessions/team:sample", plain); got != 401 {
		t.Errorf("a token for the API server: %d, want 401", got)
	}
}

// TestTheViewersOwnAccount checks that it may not do more than the viewer does.
func TestTheViewersOwnAccount(t *testing.T) {
	viewer, err := kubernetes.NewForConfig(cluster.viewer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := viewer.CoreV1().Secrets(story.Namespace).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the viewer's account may list Secrets")
	}
	if _, err := viewer.CoreV1().Pods(story.Namespace).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the viewer's account may list Pods")
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	own, err := client.New(cluster.viewer, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Delete(t.Context(), &v1alpha1.AgentSession{ObjectMeta: metav1.ObjectMeta{Namespace: story.Namespace, Name: "third"}}); err == nil {
		t.Error("the viewer's account may delete sessions")
	}
}

// waitForDenial waits until the API server's authorizer has heard of a change.
func waitForDenial(t *testing.T, user string) {
	t.Helper()
	gate, err := kubeauth.NewGate(cluster.viewer, kubeauth.Options{Yes: time.Nanosecond, No: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server denies it", func() bool {
		allowed, err := gate.Allowed(t.Context(), server.User{Name: user}, server.Access{Verb: "get", Subresource: "trajectory", Namespace: story.Namespace, Name: "sample"})
		if err != nil {
			t.Fatal(err)
		}
		return !allowed
	})
}

// eventually waits for what the API server comes to know by itself.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

// TestRunsThatNeverStarted lists what the resources of runs say that no worker ever had.
func TestRunsThatNeverStarted(t *testing.T) {
	url := serve(t, kubeauth.Options{})
	token := reader(t, "run-reader", story.Namespace, "agentloop-trajectory-viewer")
	ctx := t.Context()
	run := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: story.Namespace, Name: "never-began"}}
	run.Spec.SessionRef.Name, run.Spec.Operation = "third", "Compact"
	if err := cluster.own.Create(ctx, run); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	run.Status.CompletionTime = &now
	for _, condition := range []string{v1alpha1.ConditionSucceeded, v1alpha1.ConditionFinished} {
		status := metav1.ConditionFalse
		if condition == v1alpha1.ConditionFinished {
			status = metav1.ConditionTrue
		}
		run.Status.Conditions = append(run.Status.Conditions, metav1.Condition{
			Type: condition, Status: status, Reason: v1alpha1.RunReasonCancelled, Message: "cancelled while queued", LastTransitionTime: now,
		})
	}
	if err := cluster.own.Status().Update(ctx, run); err != nil {
		t.Fatal(err)
	}
	var session v1alpha1.AgentSession
	if err := cluster.own.Get(ctx, client.ObjectKey{Namespace: story.Namespace, Name: "third"}, &session); err != nil {
		t.Fatal(err)
	}
	session.Status.RunsTotal = 1
	if err := cluster.own.Status().Update(ctx, &session); err != nil {
		t.Fatal(err)
	}
	var page struct {
		Runs []trajectory.Run `json:"runs"`
	}
	_, body := get(t, url+"/api/sessions/team:third/trajectory", token)
	if err := json.Unmarshal(body, &page); err != nil {
		t.Fatal(err)
	}
	if len(page.Runs) != 1 || page.Runs[0].Name != "never-began" || page.Runs[0].Status != "cancelled" || page.Runs[0].Reason != "Cancelled" || page.Runs[0].Message != "cancelled while queued" || page.Runs[0].EndedAt == 0 {
		t.Errorf("runs are %s", body)
	}
}
