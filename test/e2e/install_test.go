package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestInstallation installs the chart beside NATS and an object store and uses it, in an order that makes sense: a part that
// fails ends the rest.
func TestInstallation(t *testing.T) {
	stores(t)
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"install", install},
		{"a run through the Services", oneRun},
		{"the viewer by its Service, for who may", viewer},
		{"a worker's Pod is deleted under a run", deletedWorker},
		{"an upgrade under load", upgrade},
		{"uninstall", uninstall},
	} {
		if !t.Run(part.name, part.run) {
			show(t)
			return
		}
	}
}

// show prints what the Pods say of themselves.
func show(t *testing.T) {
	for _, args := range [][]string{{"get", "pods", "-A", "-o", "wide"}, {"get", "events", "-n", system, "--sort-by=.lastTimestamp"}, {"-n", system, "logs", "--selector=app.kubernetes.io/name=agentloop", "--all-containers", "--tail=20", "--prefix"}} {
		out, err := call(context.WithoutCancel(t.Context()), "", "kubectl", args...)
		t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// stores brings up what an installation refers to.
func stores(t *testing.T) {
	t.Helper()
	kubectl(t, "apply", "-f", filepath.Join(root, "test/e2e/testdata/stores.yaml"))
	for _, name := range []string{"nats", "s3", "models"} {
		kubectl(t, "-n", "stores", "rollout", "status", "deployment/"+name, "--timeout=2m")
	}
	kubectl(t, "create", "namespace", system)
	kubectl(t, "label", "namespace", system, "pod-security.kubernetes.io/enforce=restricted")
	kubectl(t, "-n", system, "create", "secret", "generic", "s3", "--from-literal=access-key=agentloop", "--from-literal=secret-key=e2e-secret-key")
	kubectl(t, "create", "namespace", team)
}

// helm runs it on the chart with the values of these tests.
func helm(t *testing.T, verb string, args ...string) string {
	t.Helper()
	return do(t, "", "helm", append([]string{
		verb, "agentloop", filepath.Join(root, "charts/agentloop"), "--namespace", system, "--values", filepath.Join(root, "test/e2e/testdata/values.yaml"),
		"--wait", "--timeout", "4m",
	}, args...)...)
}

func install(t *testing.T) {
	helm(t, "install")
	const want = "controllers Running true\ncontrollers Running true\nviewer Running true\nviewer Running true\nworkers Running true\nworkers Running true"
	got := kubectl(t, "-n", system, "get", "pods", "--sort-by=.metadata.name", "-o",
		`jsonpath={range .items[*]}{.metadata.labels.app\.kubernetes\.io/component} {.status.phase} {.status.containerStatuses[0].ready}{"\n"}{end}`)
	if got != want {
		t.Errorf("Pods:\n%s\nwant\n%s", got, want)
	}
	t.Logf("kubectl get pods -A\n%s", kubectl(t, "get", "pods", "-A"))
	if holder := kubectl(t, "-n", system, "get", "lease", "agentloop-controllers", "-o", "jsonpath={.spec.holderIdentity}"); !strings.HasPrefix(holder, "agentloop-controllers-") {
		t.Errorf("the controllers' lease is held by %q", holder)
	}
	provider(t, team)
}

func oneRun(t *testing.T) {
	apply(t, manifest(team, "first", "quick"))
	completed(t, team, "first", time.Minute)
	if worker := status(t, team, "first", "worker.identity"); !strings.HasPrefix(worker, "agentloop-workers-") {
		t.Errorf("the run was executed by %q, want a Pod of the workers", worker)
	}
	t.Logf("kubectl get agentruns\n%s", kubectl(t, "-n", team, "get", "agentruns", "-o", "wide"))
}

// token makes a token of an account, and the account when it is not there.
func token(t *testing.T, namespace, account string) string {
	t.Helper()
	apply(t, fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, namespace: %s}\n", account, namespace))
	return kubectl(t, "-n", namespace, "create", "token", account)
}

// get asks the viewer through its Service. Right after a Service gets its endpoints it may refuse for a second.
func get(t *testing.T, path, bearer string) (code int, body string) {
	t.Helper()
	address := kubectl(t, "-n", system, "get", "service", "agentloop-viewer", "-o", "jsonpath={.spec.clusterIP}")
	eventually(t, 10*time.Second, "the viewer's Service answers", func() (bool, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if bearer != "" {
			request.Header.Set("Authorization", "Bearer "+bearer)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, err.Error()
		}
		defer response.Body.Close()
		raw, err := io.ReadAll(response.Body)
		code, body = response.StatusCode, string(raw)
		return err == nil, fmt.Sprint(err)
	})
	return code, body
}

func viewer(t *testing.T) {
	const trajectory = "/api/sessions/team:first/trajectory"
	reader, stranger := token(t, team, "reader"), token(t, team, "stranger")
	kubectl(t, "-n", team, "create", "rolebinding", "reader", "--clusterrole=agentloop-trajectory-viewer", "--serviceaccount=team:reader")
	if code, _ := get(t, trajectory, ""); code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", code)
	}
	if code, _ := get(t, trajectory, stranger); code != http.StatusForbidden {
		t.Errorf("with the token of who has no role: %d", code)
	}
	for who, bearer := range map[string]string{"an account with the role": reader, "the chart's account": kubectl(t, "-n", system, "create", "token", "agentloop-viewer-access")} {
		if code, body := get(t, trajectory, bearer); code != http.StatusOK || !strings.Contains(body, "run.finished") && !strings.Contains(body, "Completed") && !strings.Contains(body, "succeeded") {
			t.Errorf("%s: %d %.500s", who, code, body)
		}
		if code, _ := get(t, trajectory+"/export", bearer); code != http.StatusForbidden {
			t.Errorf("%s exports: %d", who, code)
		}
	}
	if code, body := get(t, "/", ""); code != http.StatusOK || !strings.Contains(body, "<html") {
		t.Errorf("the page: %d", code)
	}
}

func deletedWorker(t *testing.T) {
	apply(t, manifest(team, "survivor", "slow"))
	var pod string
	eventually(t, time.Minute, "a worker waits for the model", func() (bool, string) {
		pod = status(t, team, "survivor", "worker.identity")
		return pod != "" && outcome(t, team, "survivor") == "ModelCall", outcome(t, team, "survivor")
	})
	kubectl(t, "-n", system, "delete", "pod", pod, "--grace-period=0", "--force")
	completed(t, team, "survivor", 3*time.Minute)
	if again := status(t, team, "survivor", "worker.identity"); again == pod || again == "" {
		t.Errorf("the run was executed by %s to its end, which had been deleted", again)
	}
	if attempt := status(t, team, "survivor", "worker.attempt"); attempt != "2" {
		t.Errorf("attempt %s, want 2", attempt)
	}
}

// upgrade replaces every Pod while runs come in, and wants each run to end well.
func upgrade(t *testing.T) {
	before := kubectl(t, "-n", system, "get", "pods", "-o", "name")
	const runs = 24
	started := make(chan error, 1)
	ctx := t.Context()
	go func() {
		// One every second, so that some come before, some while and some after the Pods are replaced.
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for i := range runs {
			if _, err := call(ctx, manifest(team, fmt.Sprintf("load-%d", i), "quick"), "kubectl", "apply", "-f", "-"); err != nil {
				started <- err
				return
			}
			<-every.C
		}
		started <- nil
	}()
	helm(t, "upgrade", "--set", "controllers.podAnnotations.upgrade=1,workers.podAnnotations.upgrade=1,viewer.podAnnotations.upgrade=1")
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		completed(t, team, fmt.Sprintf("load-%d", i), 2*time.Minute)
	}
	after := kubectl(t, "-n", system, "get", "pods", "-o", "name")
	for pod := range strings.Lines(before) {
		if strings.Contains(after+"\n", strings.TrimSpace(pod)+"\n") && !strings.Contains(kubectl(t, "-n", system, "get", strings.TrimSpace(pod), "-o", "jsonpath={.metadata.deletionTimestamp}"), "T") {
			t.Errorf("%s was not replaced", strings.TrimSpace(pod))
		}
	}
	t.Logf("kubectl get agentruns\n%s", kubectl(t, "-n", team, "get", "agentruns"))
}

func uninstall(t *testing.T) {
	do(t, "", "helm", "uninstall", "agentloop", "--namespace", system, "--wait")
	kubectl(t, "-n", system, "wait", "--for=delete", "pod", "--selector=app.kubernetes.io/name=agentloop", "--timeout=2m")
	if left := kubectl(t, "-n", team, "get", "agentruns", "-o", "name"); !strings.Contains(left, "first") {
		t.Errorf("runs went with the release: %s", left)
	}
}

// TestTryout installs everything in one Pod, for one namespace and with roles there only, and runs an agent.
func TestTryout(t *testing.T) {
	const namespace, served = "tryout", "solo"
	for _, name := range []string{namespace, served} {
		kubectl(t, "create", "namespace", name)
	}
	kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	do(t, "", "helm", "install", "tryout", filepath.Join(root, "charts/agentloop"), "--namespace", namespace, "--wait", "--timeout", "4m", "--take-ownership",
		"--set", "tryout.enabled=true,tryout.persistence.enabled=false,image.registry=e2e.local,image.tag=e2e,image.pullPolicy=Never,rbac.namespaces={"+served+"}")
	t.Logf("kubectl get pods\n%s", kubectl(t, "-n", namespace, "get", "pods", "-o", "wide"))
	provider(t, served)
	apply(t, manifest(served, "tried", "quick"))
	completed(t, served, "tried", time.Minute)
	do(t, "", "helm", "uninstall", "tryout", "--namespace", namespace, "--wait")
}
