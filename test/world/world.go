// Package world starts everything that agentloop needs and agentloop itself, on loopback: control plane, NATS, S3, the
// scripted model server, the small MCP server, manager and viewer. Scenarios, benchmarks and the demo run on it.
//
// Guarantees: a world that Start returned is ready; manager and viewer run under their own accounts with the roles of
// config/rbac, so a missing permission shows; Stop ends every process that the world started.
package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/agentloop/agentloop/test/faultproxy"
	"github.com/agentloop/agentloop/test/mcpserver"
	"github.com/agentloop/agentloop/test/modelserver"
	"github.com/agentloop/agentloop/test/services"
)

// Options say what a world is made of.
type Options struct {
	// Root is the project's top folder, Dir the folder that the world keeps its files in.
	Root, Dir string
	// Assets has the control plane's programs, Programs NATS and S3, Bin the manager and the viewer.
	Assets, Programs, Bin string
	// Progress hears of each step.
	Progress func(format string, args ...any)
	// ManagerFlags are added to the manager's own.
	ManagerFlags []string
	// ManagerEnv is added to the manager's environment, as NAME=value.
	ManagerEnv []string
	// ManagerCommand changes the command that starts the manager; nil for no change.
	ManagerCommand func(*exec.Cmd)
	// NATSSync is when NATS writes through to the disk: "always" (also for "") or a duration such as "2m".
	NATSSync string
	// Cluster has three NATS servers instead of one, and everything replicated among them.
	Cluster bool
	// ViewerAddress is where the viewer listens; a free port when empty.
	ViewerAddress string
	// MetricsURL is where the manager serves its metrics.
	MetricsURL string
	// Faults puts something between agentloop's own programs and what they need: S3Faults in front of the object store of
	// manager and workers, APIGate in front of their API server, and NATSGates in front of each server of a cluster.
	Faults bool
}

// World is a running installation.
type World struct {
	Options
	Config     *rest.Config
	Client     *kubernetes.Clientset
	Kubeconfig string
	// NATS is the one server, Servers are the three of a cluster; the other is nil.
	NATS      *services.NATS
	Servers   *services.Cluster
	S3        *services.S3
	Models    *modelserver.Server
	ModelsURL string
	Tools     *mcpserver.Server
	ToolsURL  string
	Manager   *services.Process
	Viewer    *services.Process
	ViewerURL string

	// S3Faults and APIGate are nil without Faults, NATSGates also without Cluster.
	S3Faults  *faultproxy.Proxy
	APIGate   *services.Gate
	NATSGates []*services.Gate

	// Chaos is the manager's chaos point from its next start on; empty for none.
	Chaos string

	control *envtest.Environment
	stops   []func() error
}

// Start brings a world up. On failure it has stopped what it started.
func Start(ctx context.Context, opts Options) (*World, error) {
	w := &World{Options: opts}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"API server and etcd", w.startControlPlane},
		{"controller manager of Kubernetes", w.startGarbageCollector},
		{"NATS", w.startNATS},
		{"S3", w.startS3},
		{"ways to S3 and API server", w.startFaults},
		{"model server and MCP server", w.startPeers},
		{"accounts and roles", w.applyRoles},
		{"manager", w.startManager},
		{"viewer", w.startViewer},
	} {
		begun := time.Now()
		if err := step.run(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("start %s: %w", step.name, err), w.Stop())
		}
		opts.Progress("%s up in %.1f s", step.name, time.Since(begun).Seconds())
	}
	return w, nil
}

// Stop ends everything, last started first.
func (w *World) Stop() error {
	var errs []error
	for i := len(w.stops) - 1; i >= 0; i-- {
		errs = append(errs, w.stops[i]())
	}
	w.stops = nil
	return errors.Join(errs...)
}

func (w *World) path(elements ...string) string {
	return filepath.Join(append([]string{w.Dir}, elements...)...)
}

func (w *World) startControlPlane(context.Context) error {
	w.control = &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join(w.Root, "config/crd")}, ErrorIfCRDPathMissing: true, BinaryAssetsDirectory: w.Assets,
		ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: 30 * time.Second,
	}
	// With this the API server gives those who watch two seconds when it is stopped, instead of a minute.
	w.control.ControlPlane.GetAPIServer().Configure().Set("shutdown-send-retry-after", "true")
	var err error
	if w.Config, err = w.control.Start(); err != nil {
		return err
	}
	w.stops = append(w.stops, w.control.Stop)
	w.Config.QPS, w.Config.Burst = -1, -1
	user, err := w.control.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return err
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return err
	}
	w.Kubeconfig = w.path("kubeconfig")
	if err := os.WriteFile(w.Kubeconfig, kubeconfig, 0o600); err != nil {
		return err
	}
	w.Client, err = kubernetes.NewForConfig(w.Config)
	return err
}

// startGarbageCollector runs the parts of the real controller manager that owned objects and namespaces need.
func (w *World) startGarbageCollector(ctx context.Context) error {
	process := services.NewProgram(services.ProgramOptions{
		Name: "kube-controller-manager", LogPath: w.path("kube-controller-manager.log"),
		Command: func() *exec.Cmd {
			return exec.Command(filepath.Join(w.Assets, "kube-controller-manager"), "--kubeconfig="+w.Kubeconfig,
				"--controllers=garbage-collector-controller,namespace-controller,serviceaccount-controller",
				"--leader-elect=false", "--use-service-account-credentials=false", "--secure-port=0")
		},
		Ready: func(ctx context.Context) error { return w.hasDefaultAccount(ctx) },
	})
	return w.start(ctx, process)
}

// EtcdMetrics are etcd's own, as Prometheus reads them.
func (w *World) EtcdMetrics(ctx context.Context) ([]byte, error) {
	url := *w.control.ControlPlane.Etcd.URL
	url.Path = "/metrics"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// start starts a process and remembers to stop it.
func (w *World) start(ctx context.Context, process *services.Process) error {
	w.stops = append(w.stops, process.Stop)
	return process.Start(ctx)
}

func (w *World) startNATS(ctx context.Context) error {
	var err error
	if w.Cluster {
		if w.Servers, err = services.StartNATSCluster(ctx, services.NATSOptions{Programs: w.Programs, Dir: w.path("nats"), SyncInterval: w.NATSSync}); err != nil {
			return err
		}
		w.stops = append(w.stops, w.Servers.Stop)
		return nil
	}
	if w.NATS, err = services.StartNATS(ctx, services.NATSOptions{Programs: w.Programs, Dir: w.path("nats"), SyncInterval: w.NATSSync}); err != nil {
		return err
	}
	w.stops = append(w.stops, w.NATS.Stop)
	return nil
}

// NATSURL is where NATS is, or its three servers with commas between.
func (w *World) NATSURL() string {
	if w.Servers != nil {
		return w.Servers.URL()
	}
	return w.NATS.URL
}

// NATSReplicas is how many servers keep each entry.
func (w *World) NATSReplicas() int {
	if w.Servers != nil {
		return len(w.Servers.Nodes)
	}
	return 1
}

// gatedNATSURL leads through NATSGates, if there are some.
func (w *World) gatedNATSURL() string {
	if len(w.NATSGates) == 0 {
		return w.NATSURL()
	}
	var urls []string
	for _, gate := range w.NATSGates {
		urls = append(urls, "nats://"+gate.Address())
	}
	return strings.Join(urls, ",")
}

func (w *World) startS3(ctx context.Context) error {
	var err error
	if w.S3, err = services.StartS3(ctx, services.S3Options{Programs: w.Programs, Dir: w.path("s3")}); err != nil {
		return err
	}
	w.stops = append(w.stops, w.S3.Stop)
	return nil
}

func (w *World) startFaults(context.Context) error {
	if !w.Faults {
		return nil
	}
	var err error
	if w.S3Faults, err = faultproxy.Start(w.S3.Endpoint); err != nil {
		return err
	}
	w.stops = append(w.stops, w.S3Faults.Close)
	api, err := url.Parse(w.Config.Host)
	if err != nil {
		return err
	}
	if w.APIGate, err = services.OpenGate(api.Host); err != nil {
		return err
	}
	w.stops = append(w.stops, w.APIGate.Shut)
	if w.Servers == nil {
		return nil
	}
	for _, node := range w.Servers.Nodes {
		gate, err := services.OpenGate(node.Address())
		if err != nil {
			return err
		}
		w.NATSGates = append(w.NATSGates, gate)
		w.stops = append(w.stops, gate.Shut)
	}
	return nil
}

func (w *World) startPeers(context.Context) error {
	w.Models = modelserver.New(modelserver.Options{})
	var err error
	if w.ModelsURL, err = w.serve(w.Models); err != nil {
		return err
	}
	w.stops = append(w.stops, func() error { w.Models.Close(); return nil })
	w.Tools = mcpserver.New(mcpserver.Options{})
	w.ToolsURL, err = w.serve(w.Tools)
	return err
}

// serve runs a handler on a free loopback port.
func (w *World) serve(handler http.Handler) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Close below
	}()
	w.stops = append(w.stops, func() error {
		err := server.Close()
		<-done
		return err
	})
	return "http://" + listener.Addr().String(), nil
}

func (w *World) startManager(ctx context.Context) error {
	health, err := freeAddress()
	if err != nil {
		return err
	}
	metrics, err := freeAddress()
	if err != nil {
		return err
	}
	w.MetricsURL = "http://" + metrics + "/metrics"
	account, err := w.account(ctx, managerAccount)
	if err != nil {
		return err
	}
	viewer := w.ViewerAddress
	if viewer == "" {
		if viewer, err = freeAddress(); err != nil {
			return err
		}
		w.ViewerAddress = viewer
	}
	w.Manager = services.NewProgram(services.ProgramOptions{
		Name: "manager", LogPath: w.path("manager.log"),
		Command: func() *exec.Cmd {
			args := append([]string{
				"--role=all", "--leader-elect=false", "--allow-loopback", "--health-address=" + health, "--metrics-address=" + metrics, "--worker-id=worker-1",
				"--viewer-url=http://" + viewer, "--log-level=debug",
			}, w.managerStoreFlags()...)
			args = append(args, w.ManagerFlags...)
			if w.Chaos != "" {
				args = append(args, "--chaos="+w.Chaos)
			}
			command := w.command("manager", account, args)
			command.Env = append(command.Env, w.ManagerEnv...)
			if w.ManagerCommand != nil {
				w.ManagerCommand(command)
			}
			return command
		},
		Ready: func(ctx context.Context) error { return answers(ctx, "http://"+health+"/readyz") },
	})
	return w.start(ctx, w.Manager)
}

// leaves is how long a worker may take to end: its drain time and then as long as it may save what it has.
const leaves = time.Minute

// StartWorker starts one more worker, of a process of its own, with the chaos point if there is one. Stop ends it, if nobody
// did before.
func (w *World) StartWorker(ctx context.Context, id, chaos string) (*services.Process, error) {
	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	account, err := w.account(ctx, managerAccount)
	if err != nil {
		return nil, err
	}
	process := services.NewProgram(services.ProgramOptions{
		Name: id, LogPath: w.path(id + ".log"), StopLimit: leaves,
		Command: func() *exec.Cmd {
			args := append([]string{"--role=all", "--leader-elect=false", "--allow-loopback", "--health-address=" + health, "--worker-id=" + id}, w.managerStoreFlags()...)
			args = append(append(args, w.ManagerFlags...), "--role=workers")
			if chaos != "" {
				args = append(args, "--chaos="+chaos)
			}
			return w.command("manager", account, args)
		},
		Ready: func(ctx context.Context) error { return answers(ctx, "http://"+health+"/readyz") },
	})
	return process, w.start(ctx, process)
}

func (w *World) storeFlags() []string { return w.flagsFor(w.NATSURL(), w.S3.Endpoint) }

// managerStoreFlags lead through S3Faults and NATSGates, if there are some.
func (w *World) managerStoreFlags() []string {
	endpoint := w.S3.Endpoint
	if w.S3Faults != nil {
		endpoint = w.S3Faults.URL()
	}
	return append(w.flagsFor(w.gatedNATSURL(), endpoint), fmt.Sprintf("--nats-replicas=%d", w.NATSReplicas()))
}

func (w *World) flagsFor(nats, endpoint string) []string {
	return []string{
		"--nats-url=" + nats, "--s3-endpoint=" + endpoint, "--s3-bucket=" + w.S3.Bucket, "--s3-region=" + w.S3.Region, "--s3-addressing=path",
	}
}

// Tool is the manager program with a subcommand, as an operator calls it who may do everything.
func (w *World) Tool(args ...string) *exec.Cmd {
	return w.command("manager", w.Kubeconfig, append(args, w.storeFlags()...))
}

// StoreFolders are where NATS and S3 keep what is stored.
func (w *World) StoreFolders() map[string]string {
	return map[string]string{"nats": w.path("nats", "jetstream"), "s3": w.path("s3", "objects")}
}

func (w *World) command(program, kubeconfig string, args []string) *exec.Cmd {
	command := exec.Command(filepath.Join(w.Bin, program), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "AWS_ACCESS_KEY_ID="+w.S3.AccessKey, "AWS_SECRET_ACCESS_KEY="+w.S3.SecretKey)
	return command
}

func (w *World) startViewer(ctx context.Context) error {
	account, err := w.account(ctx, "agentloop-viewer")
	if err != nil {
		return err
	}
	w.ViewerURL = "http://" + w.ViewerAddress
	w.Viewer = services.NewProgram(services.ProgramOptions{
		Name: "viewer", LogPath: w.path("viewer.log"),
		Command: func() *exec.Cmd {
			return w.command("viewer", account, append([]string{"--listen=" + w.ViewerAddress}, w.storeFlags()...))
		},
		Ready: func(ctx context.Context) error { return answers(ctx, w.ViewerURL+"/readyz") },
	})
	return w.start(ctx, w.Viewer)
}

func answers(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
