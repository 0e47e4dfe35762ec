package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/pkg/tool/mcp"
	"github.com/agentloop/agentloop/test/services"
)

const program = "../others/node_modules/kubernetes-mcp-server-linux-amd64/bin/kubernetes-mcp-server-linux-amd64"

// cluster starts an API server with a namespace of the test's own.
func cluster(t *testing.T) (*envtest.Environment, *kubernetes.Clientset) {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: run `make test`, or set it to what `make control-plane` prints")
	}
	environment := &envtest.Environment{ControlPlaneStartTimeout: 2 * time.Minute}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return environment, client
}

// kubeconfig makes a file of credentials for a user.
func kubeconfig(t *testing.T, environment *envtest.Environment, user envtest.User) string {
	t.Helper()
	account, err := environment.AddUser(user, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := account.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// serve runs the MCP server and returns its endpoint.
func serve(t *testing.T, kubeconfig string, flags ...string) string {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%s is not installed: run `make npm-tools` (or test/tools/others/install.sh)", filepath.Base(program))
	}
	home := t.TempDir()
	var address string
	process := services.NewProgram(services.ProgramOptions{
		Name: "kubernetes-mcp-server", LogPath: filepath.Join(home, "log"),
		Command: func() *exec.Cmd {
			address = freeAddress(t)
			_, port, _ := net.SplitHostPort(address) // it was made by a listener
			cmd := exec.Command(program, append([]string{"--kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", "--port=" + port, "--cluster-provider=kubeconfig"}, flags...)...)
			cmd.Env = []string{"HOME=" + home}
			return cmd
		},
		Ready: func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
			if err != nil {
				return err
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := process.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Stop(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + address + "/mcp"
}

// freeAddress is an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// connect returns the server's tools, and the protocol version that was agreed on.
func connect(t *testing.T, url string, allow ...string) (*mcp.Set, string) {
	t.Helper()
	var log bytes.Buffer
	set, problems, err := mcp.Connect(t.Context(), []mcp.ServerConfig{{Name: "kube", URL: url, Allow: allow, RetrySafe: []string{mcp.All}}}, mcp.Options{
		Addresses: mcp.AddressPolicy{AllowLoopback: true}, ConnectTimeout: time.Minute, Logger: slog.New(slog.NewJSONHandler(&log, nil)),
	})
	if err != nil || len(problems) > 0 {
		t.Fatalf("connect: %v, problems %+v", err, problems)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	var line struct{ Protocol string }
	if err := json.NewDecoder(&log).Decode(&line); err != nil {
		t.Fatal(err)
	}
	return set, line.Protocol
}

// call runs a tool and returns its text.
func call(t *testing.T, set *mcp.Set, name, arguments string) (string, tool.Result) {
	t.Helper()
	result, err := set.Call(t.Context(), tool.Call{ID: "c", Name: "kube__" + name, Arguments: json.RawMessage(arguments)}, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return message.Message{Role: message.RoleToolResult, Content: result.Content}.PlainText(), result
}

// recipe is what the sample for this server allows.
func recipe(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile("../../../config/samples/tools/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document, _, _ := strings.Cut(string(raw), "\n---\n")
	var session v1alpha1.AgentSession
	if err := yaml.UnmarshalStrict([]byte(document), &session); err != nil {
		t.Fatal(err)
	}
	if len(session.Spec.ToolServers) != 1 || len(session.Spec.ToolServers[0].Allow) < 3 {
		t.Fatalf("the sample has the tool servers %+v", session.Spec.ToolServers)
	}
	return session.Spec.ToolServers[0].Allow
}

const settings = `{"resource":"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: team}\ndata: {colour: blue}\n"}`

// TestKubernetesServer reads and changes objects of an API server through both ways in which the server keeps sessions.
func TestKubernetesServer(t *testing.T) {
	environment, client := cluster(t)
	admin := kubeconfig(t, environment, envtest.User{Name: "admin", Groups: []string{"system:masters"}})
	for name, tc := range map[string]struct {
		flags    []string
		protocol string
	}{
		"without sessions": {[]string{"--stateless"}, "2026-07-28"},
		"with sessions":    {nil, "2025-11-25"},
	} {
		t.Run(name, func(t *testing.T) {
			set, protocol := connect(t, serve(t, admin, tc.flags...), mcp.All)
			if protocol != tc.protocol {
				t.Errorf("protocol %s, want %s", protocol, tc.protocol)
			}
			marks := map[string]string{}
			for _, d := range set.Definitions() {
				marks[d.RemoteName] = fmt.Sprintf("reads %t, repeatable %t", d.ReadOnly, d.Repeatable())
			}
			if marks["resources_list"] != "reads true, repeatable true" || marks["resources_delete"] != "reads false, repeatable true" || marks["pods_exec"] != "reads false, repeatable false" {
				t.Errorf("marks of tools: %q", marks)
			}
			for _, name := range recipe(t) {
				if !strings.HasPrefix(marks[name], "reads true") {
					t.Errorf("the recipe allows %s, of which the server says %q", name, marks[name])
				}
			}
			if text, _ := call(t, set, "namespaces_list", `{}`); !strings.Contains(text, "team") {
				t.Errorf("namespaces: %s", text)
			}
			if text, got := call(t, set, "resources_create_or_update", settings); got.IsError {
				t.Errorf("create: %s", text)
			}
			stored, err := client.CoreV1().ConfigMaps("team").Get(t.Context(), "settings", metav1.GetOptions{})
			if err != nil || stored.Data["colour"] != "blue" {
				t.Errorf("stored %+v, %v", stored, err)
			}
			if text, _ := call(t, set, "resources_get", `{"apiVersion":"v1","kind":"ConfigMap","namespace":"team","name":"settings"}`); !strings.Contains(text, "colour: blue") {
				t.Errorf("get: %s", text)
			}
			if text, got := call(t, set, "resources_get", `{"apiVersion":"v1","kind":"ConfigMap","namespace":"team","name":"nothing"}`); !got.IsError || !strings.Contains(text, "not found") {
				t.Errorf("an object that there is not: %s", text)
			}
			if text, got := call(t, set, "resources_get", `{"kind":"ConfigMap"}`); !got.IsError || !strings.Contains(text, "do not fit") {
				t.Errorf("arguments that do not fit: %s", text)
			}
			if text, got := call(t, set, "resources_delete", `{"apiVersion":"v1","kind":"ConfigMap","namespace":"team","name":"settings"}`); got.IsError {
				t.Errorf("delete: %s", text)
			}
		})
	}
}

// TestKubernetesServerOfAnAccount runs the server with an account that may read ConfigMaps of one namespace: what the account may not do, no
// tool does.
func TestKubernetesServerOfAnAccount(t *testing.T) {
	environment, client := cluster(t)
	if _, err := client.RbacV1().Roles("team").Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RbacV1().RoleBindings("team").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	url := serve(t, kubeconfig(t, environment, envtest.User{Name: "reader"}), "--stateless", "--read-only")
	set, _ := connect(t, url, mcp.All)
	if slices.ContainsFunc(set.Definitions(), func(d tool.Definition) bool { return !d.ReadOnly }) {
		t.Errorf("tools that write: %+v", set.Definitions())
	}
	if text, got := call(t, set, "resources_list", `{"apiVersion":"v1","kind":"ConfigMap","namespace":"team"}`); got.IsError {
		t.Errorf("what it may read: %s", text)
	}
	for name, arguments := range map[string]string{
		"secrets": `{"apiVersion":"v1","kind":"Secret","namespace":"team"}`, "another namespace": `{"apiVersion":"v1","kind":"ConfigMap","namespace":"default"}`,
	} {
		if text, got := call(t, set, "resources_list", arguments); !got.IsError || !strings.Contains(text, "forbidden") {
			t.Errorf("%s: %s", name, text)
		}
	}
	if text, got := call(t, set, "resources_create_or_update", settings); !got.IsError || !strings.Contains(text, "There is no tool named") {
		t.Errorf("a tool that writes: %s", text)
	}
}
