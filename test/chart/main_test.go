package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/agentloop/agentloop/test/services"
)

const (
	root  = "../.."
	chart = root + "/charts/agentloop"
	// system is the namespace that releases are installed in.
	system = "agentloop-system"
)

// cluster is the API server that the tests share. It has no kinds of ours: the chart brings them.
var cluster struct {
	kubeconfig, home string
	client           *kubernetes.Clientset
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/chart:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if _, err := os.Stat(asset("helm")); err != nil {
		return 1, errors.New("KUBEBUILDER_ASSETS names no folder with helm: run make test-api, or set it to what hack/envtest/setup.sh prints")
	}
	folder, err := os.MkdirTemp("", "agentloop-chart-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(folder)
	env := &envtest.Environment{ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: 30 * time.Second}
	env.ControlPlane.GetAPIServer().Configure().Set("shutdown-send-retry-after", "true")
	config, err := env.Start()
	if err != nil {
		return 1, fmt.Errorf("start the API server: %w", err)
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	user, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return 1, err
	}
	content, err := user.KubeConfig()
	if err != nil {
		return 1, err
	}
	cluster.home, cluster.kubeconfig = folder, filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(cluster.kubeconfig, content, 0o600); err != nil {
		return 1, err
	}
	if cluster.client, err = kubernetes.NewForConfig(config); err != nil {
		return 1, err
	}
	manager, err := startControllers(folder)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, manager.Stop()) }()
	return m.Run(), nil
}

// startControllers runs the parts of the real controller manager that make Pods of Deployments, remove what lost its owner
// and fill aggregated roles.
func startControllers(folder string) (*services.Process, error) {
	process := services.NewProgram(services.ProgramOptions{
		Name: "kube-controller-manager", LogPath: filepath.Join(folder, "kube-controller-manager.log"),
		Command: func() *exec.Cmd {
			return exec.Command(asset("kube-controller-manager"), "--kubeconfig="+cluster.kubeconfig,
				"--controllers=deployment-controller,replicaset-controller,garbage-collector-controller,namespace-controller,serviceaccount-controller,clusterrole-aggregation-controller,disruption-controller",
				"--leader-elect=false", "--use-service-account-credentials=false", "--secure-port=0")
		},
		Ready: func(ctx context.Context) error {
			_, err := cluster.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
			return err
		},
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return process, process.Start(ctx)
}

func asset(name string) string { return filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), name) }

// call runs a program of the assets and returns its standard output; a failure has what it said.
func call(t *testing.T, input []byte, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, asset(program), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.kubeconfig, "HOME="+cluster.home)
	for _, name := range []string{"CACHE", "CONFIG", "DATA"} {
		command.Env = append(command.Env, "HELM_"+name+"_HOME="+filepath.Join(cluster.home, "helm", strings.ToLower(name)))
	}
	if input != nil {
		command.Stdin = bytes.NewReader(input)
	}
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, said.String())
	}
	return out.String(), nil
}

func helm(t *testing.T, args ...string) (string, error) { return call(t, nil, "helm", args...) }

func kubectl(t *testing.T, args ...string) (string, error) { return call(t, nil, "kubectl", args...) }

// must ends the test when a command failed.
func must(t *testing.T) func(string, error) string {
	t.Helper()
	return func(out string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// eventually asks until the answer is yes, for a minute at most.
func eventually(t *testing.T, what string, answer func() (bool, error)) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		yes, err := answer()
		switch {
		case yes && err == nil:
			return
		case err != nil && !apierrors.IsNotFound(err) || time.Now().After(deadline):
			t.Fatalf("%s: not so, %v", what, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
