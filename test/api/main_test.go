package api

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/agentloop/agentloop/api/v1alpha1"
)

const (
	crdFolder = "../../config/crd"
	namespace = "default"
)

// world is the API server that all tests share.
var world struct {
	config     *rest.Config
	dynamic    dynamic.Interface
	kubeconfig string
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: run KUBEBUILDER_ASSETS=$(hack/envtest/setup.sh) go test ./test/api/... from the top folder")
		return 1
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{crdFolder}, ErrorIfCRDPathMissing: true}
	config, err := env.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	folder, err := os.MkdirTemp("", "agentloop-api-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
	}()
	if err := connect(env, config, filepath.Join(folder, "kubeconfig")); err != nil {
		fmt.Fprintln(os.Stderr, "connect to the API server:", err)
		return 1
	}
	return m.Run()
}

func connect(env *envtest.Environment, config *rest.Config, kubeconfig string) error {
	config.QPS, config.Burst = -1, -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	user, err := env.AddUser(envtest.User{Name: "tester", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return err
	}
	content, err := user.KubeConfig()
	if err != nil {
		return err
	}
	world.config, world.dynamic, world.kubeconfig = config, client, kubeconfig
	return os.WriteFile(kubeconfig, content, 0o600)
}

// resources of the group by kind.
var resources = map[string]schema.GroupVersionResource{
	v1alpha1.KindModelProvider: v1alpha1.GroupVersion.WithResource("modelproviders"),
	v1alpha1.KindAgentSession:  v1alpha1.GroupVersion.WithResource("agentsessions"),
	v1alpha1.KindAgentRun:      v1alpha1.GroupVersion.WithResource("agentruns"),
	v1alpha1.KindToolApproval:  v1alpha1.GroupVersion.WithResource("toolapprovals"),
}

func resource(kind string) dynamic.ResourceInterface {
	return world.dynamic.Resource(resources[kind]).Namespace(namespace)
}

// parse reads a YAML document; an empty one is an empty map.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("bad YAML in the test: %v\n%s", err, text)
	}
	return out
}

// merge lays a patch over an object: a null removes, maps go deeper, anything else replaces.
func merge(into, patch map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range into {
		out[k] = v
	}
	for k, v := range patch {
		below, isMap := v.(map[string]any)
		old, wasMap := out[k].(map[string]any)
		switch {
		case v == nil:
			delete(out, k)
		case isMap && wasMap:
			out[k] = merge(old, below)
		default:
			out[k] = v
		}
	}
	return out
}

func object(kind string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	u.SetGenerateName("case-")
	return u
}

// create sends an object as kubectl does, with unknown fields refused, and removes it when the test ends.
func create(t *testing.T, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	made, err := resource(u.GetKind()).Create(ctx, u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := resource(u.GetKind()).Delete(context.Background(), made.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete %s: %v", made.GetName(), err)
		}
	})
	return made, nil
}

// kubectl runs the real program and returns what it prints, errors included.
func kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	program := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	cmd := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", world.kubeconfig}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// codecs only carries bytes: the tests read tables themselves.
var codecs = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
