package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	system = "agentloop-system"
	team   = "team"
)

// root is the project's top folder.
var root = os.Getenv("E2E_ROOT")

func TestMain(m *testing.M) {
	if root == "" || os.Getenv("KUBECONFIG") == "" {
		fmt.Fprintln(os.Stderr, "these tests run on a node that make e2e brings up")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// call runs a program of the control plane and returns its standard output; a failure has what it said.
func call(ctx context.Context, input, program string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), program), args...)
	command.Stdin = strings.NewReader(input)
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s%s", program, strings.Join(args, " "), err, out.String(), said.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// kubectl ends the test when it fails.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return do(t, "", "kubectl", args...)
}

func do(t *testing.T, input, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := call(ctx, input, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func apply(t *testing.T, manifest string) {
	t.Helper()
	do(t, manifest, "kubectl", "apply", "-f", "-")
}

// eventually asks until the answer is yes.
func eventually(t *testing.T, limit time.Duration, what string, answer func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		yes, seen := answer()
		if yes {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s, last seen: %s", what, limit, seen)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// manifest has a session and a run of it.
func manifest(namespace, name, model string) string {
	return fmt.Sprintf(`
apiVersion: agentloop.dev/v1alpha1
kind: AgentSession
metadata: {name: %[1]s, namespace: %[2]s}
spec: {model: {providerRef: {name: models}, model: %[3]s}}
---
apiVersion: agentloop.dev/v1alpha1
kind: AgentRun
metadata: {name: %[1]s, namespace: %[2]s}
spec: {sessionRef: {name: %[1]s}, input: {text: What time is it?}}
`, name, namespace, model)
}

// provider makes the model provider of a namespace.
func provider(t *testing.T, namespace string) {
	t.Helper()
	kubectl(t, "-n", namespace, "apply", "-f", filepath.Join(root, "test/e2e/testdata/provider.yaml"))
}

// status is one field of a run's status.
func status(t *testing.T, namespace, name, path string) string {
	t.Helper()
	return kubectl(t, "-n", namespace, "get", "agentrun", name, "-o", "jsonpath={.status."+path+"}")
}

// outcome is the reason of the condition that says where a run is, or how it ended.
func outcome(t *testing.T, namespace, name string) string {
	t.Helper()
	return status(t, namespace, name, `conditions[?(@.type=="Succeeded")].reason`)
}

// completed waits for a run to end well.
func completed(t *testing.T, namespace, name string, limit time.Duration) {
	t.Helper()
	kubectl(t, "-n", namespace, "wait", "--for=condition=Finished", "agentrun/"+name, "--timeout="+limit.String())
	if got := outcome(t, namespace, name); got != "Completed" {
		t.Fatalf("run %s ended as %s: %s", name, got, kubectl(t, "-n", namespace, "get", "agentrun", name, "-o", "yaml"))
	}
}
