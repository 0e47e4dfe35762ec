package viewer

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/cluster"
)

// kubelet forwards a port as an API server of an older kind does: over SPDY.
type kubelet struct {
	t  *testing.T
	to string
}

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost { // WebSocket, which it does not know
		http.Error(w, "upgrade request required", http.StatusBadRequest)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		k.t.Error(err)
		return
	}
	streams := make(chan httpstream.Stream, 16)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		streams <- stream
		return nil
	})
	if connection == nil {
		k.t.Error("no upgrade")
		return
	}
	failures := map[string]httpstream.Stream{}
	for {
		select {
		case <-connection.CloseChan():
			return
		case stream := <-streams:
			id := stream.Headers().Get(corev1.PortForwardRequestIDHeader)
			if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				failures[id] = stream
				continue
			}
			go k.carry(stream, failures[id])
		}
	}
}

// carry copies one connection both ways.
func (k *kubelet) carry(data, failure httpstream.Stream) {
	defer func() { _ = failure.Close() }()
	defer func() { _ = data.Close() }()
	target, err := net.Dial("tcp", k.to)
	if err != nil {
		k.t.Error(err)
		return
	}
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(target, data) // ends with either side
		_ = target.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(data, target) // ends with either side
	_ = target.Close()
	copying.Wait()
}

// TestForward finds the viewer by its labels, forwards a port to its Pod, and shows it the kubeconfig's token.
func TestForward(t *testing.T) {
	viewer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/healthz":
			_, _ = io.WriteString(w, "ok\n")
		case r.Header.Get("Authorization") != "Bearer right":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = io.WriteString(w, `{"entries":[{"id":"a"}],"cursor":"c"}`)
		}
	}))
	t.Cleanup(viewer.Close)
	at, err := url.Parse(viewer.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	service := corev1.Service{}
	service.Namespace, service.Name = "agentloop-system", "viewer"
	service.Spec.Selector = map[string]string{"app": "viewer"}
	service.Spec.Ports = []corev1.ServicePort{{Name: "metrics", Port: 9090}, {Name: "http", Port: 80, TargetPort: intstr.FromString("web")}}
	pod := corev1.Pod{}
	pod.Namespace, pod.Name = "agentloop-system", "viewer-0"
	pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(port)}}}} //nolint:gosec // a port
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	starting := *pod.DeepCopy()
	starting.Name, starting.Status.Conditions = "viewer-9", nil
	mux := http.NewServeMux()
	list := func(pattern, kind, selector string, items any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if got := r.URL.Query().Get("labelSelector"); got != selector {
				t.Errorf("%s: selector %s", pattern, got)
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": kind, "items": items})
		})
	}
	list("GET /api/v1/services", "ServiceList", "app.kubernetes.io/component=viewer,app.kubernetes.io/name=agentloop", []corev1.Service{service})
	list("GET /api/v1/namespaces/nothing/services", "ServiceList", "app.kubernetes.io/component=viewer,app.kubernetes.io/name=agentloop", []corev1.Service{})
	list("GET /api/v1/namespaces/agentloop-system/pods", "PodList", "app=viewer", []corev1.Pod{starting, pod})
	mux.Handle("/api/v1/namespaces/agentloop-system/pods/viewer-0/portforward", &kubelet{t, at.Host})
	api := httptest.NewServer(mux)
	t.Cleanup(api.Close)

	flags := genericclioptions.NewConfigFlags(true)
	empty := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	namespace := "team"
	flags.KubeConfig, flags.APIServer, flags.Namespace = &empty, &api.URL, &namespace
	c, err := cluster.Open(flags)
	if err != nil {
		t.Fatal(err)
	}
	c.Config.BearerToken = "right" // a kubeconfig's would be left out, as the API server here speaks no TLS
	client, err := Connect(t.Context(), c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if !strings.HasPrefix(client.Base, "http://127.0.0.1:") || client.Base == viewer.URL {
		t.Errorf("the viewer is at %s", client.Base)
	}
	page, err := client.Trajectory(t.Context(), "chat", "")
	if err != nil || len(page.Entries) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := Connect(t.Context(), c, Options{Namespace: "nothing"}); err == nil || !strings.Contains(err.Error(), "no viewer was found") {
		t.Errorf("no viewer: %v", err)
	}
}
