package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/test/mcpserver"
	"github.com/agentloop/agentloop/test/services"
	"github.com/agentloop/agentloop/test/world"
)

type loadConfig struct {
	root        string
	runs, turns int
	delay       time.Duration
	keep        bool
}

func (c *loadConfig) bind(fs *flag.FlagSet) {
	fs.StringVar(&c.root, "root", ".", "the project's top folder, whose bin/ holds manager and viewer")
	fs.IntVar(&c.runs, "load-runs", 32, "runs at once, each in a session of its own")
	fs.IntVar(&c.turns, "load-turns", 10, "model requests of each run")
	fs.DurationVar(&c.delay, "load-delay", time.Second, "how long the model takes for each answer")
	fs.BoolVar(&c.keep, "load-keep", false, "keep the folder with the logs of manager and servers")
}

// maxLoadRounds bounds the rounds: each takes as long as a run does.
const maxLoadRounds = 3

// settled is how long the API server must have been left alone until a round's writes count as complete.
const settled = 3 * time.Second

// measureLoad runs many runs at once on a real installation with one worker: how much longer than the model itself they
// take, how often agentloop writes to the API server, and how large its status objects get.
func measureLoad(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	opts := world.Options{ManagerFlags: []string{"--log-level=info", fmt.Sprintf("--max-concurrent-runs=%d", c.load.runs)}}
	return inWorld(ctx, c.load, opts, say, func(w *world.World) ([]Figure, error) { return loadIn(ctx, w, c, say) })
}

func loadIn(ctx context.Context, w *world.World, c config, say func(string, ...any)) ([]Figure, error) {
	b, err := newLoadBench(ctx, w, c.load)
	if err != nil {
		return nil, err
	}
	defer b.observer.stop()
	var rounds []round
	for i := range min(c.count, maxLoadRounds) {
		got, err := b.round(ctx, fmt.Sprintf("round%d", i+1))
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", i+1, err)
		}
		say("round %d: %s for %d runs of %d turns, %.1f writes for each run", i+1, got.wall.Round(time.Millisecond), c.load.runs, c.load.turns,
			float64(got.writes.total())/float64(c.load.runs))
		rounds = append(rounds, got)
	}
	return loadFigures(c.load, rounds), nil
}

func loadFigures(c loadConfig, rounds []round) []Figure {
	ideal := float64(c.turns) * c.delay.Seconds()
	of := func(value func(round) float64) []float64 {
		out := make([]float64, len(rounds))
		for i, r := range rounds {
			out[i] = value(r)
		}
		return out
	}
	each := func(n int) float64 { return float64(n) / float64(c.runs) }
	return []Figure{
		figure("load", fmt.Sprintf("wall ÷ ideal, %d runs at once, %d turns of %s", c.runs, c.turns, c.delay), "×",
			of(func(r round) float64 { return r.wall.Seconds() / ideal })...).atMost(1.3),
		figure("load", "median time until a run is started", "s", of(func(r round) float64 { return median(r.waits) })...),
		figure("load", "median run ÷ ideal, once started", "×", of(func(r round) float64 { return median(r.lasts) / ideal })...),
		figure("load", "API writes for each run", "", of(func(r round) float64 { return each(r.writes.total()) })...).atMost(10),
		figure("load", "of these: run status", "", of(func(r round) float64 { return each(r.writes["agentruns/status"]) })...),
		figure("load", "of these: session status", "", of(func(r round) float64 { return each(r.writes["agentsessions/status"]) })...),
		figure("load", "of these: Events", "", of(func(r round) float64 { return each(r.writes["events"]) })...),
		figure("load", "largest status of a run", "bytes", of(func(r round) float64 { return float64(r.runStatus) })...).atMost(4096),
		figure("load", "largest status of a session", "bytes", of(func(r round) float64 { return float64(r.sessionStatus) })...).atMost(4096),
	}
}

// inWorld measures in an installation of its own. Its logs are kept when something went wrong.
func inWorld(
	ctx context.Context, c loadConfig, opts world.Options, say func(string, ...any), measure func(*world.World) ([]Figure, error),
) (figures []Figure, err error) {
	dir, err := os.MkdirTemp("", "agentloop-bench-")
	if err != nil {
		return nil, err
	}
	opts.Dir, opts.Progress = dir, say
	w, err := startWorld(ctx, c, opts)
	if err != nil {
		return nil, fmt.Errorf("%w; logs are kept in %s", err, dir)
	}
	defer func() {
		if err = errors.Join(err, w.Stop()); err != nil || c.keep {
			say("logs are kept in %s", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	return measure(w)
}

// startWorld starts an installation out of what was built.
func startWorld(ctx context.Context, c loadConfig, opts world.Options) (*world.World, error) {
	root, err := filepath.Abs(c.root)
	if err != nil {
		return nil, err
	}
	for variable, target := range map[string]string{"KUBEBUILDER_ASSETS": "control-plane", services.FolderVariable: "services"} {
		if os.Getenv(variable) == "" {
			return nil, fmt.Errorf("%s is not set: use `make bench`, or set it to the folder that `make %s` prints", variable, target)
		}
	}
	opts.Root, opts.Bin = root, filepath.Join(root, "bin")
	opts.Assets, opts.Programs = os.Getenv("KUBEBUILDER_ASSETS"), os.Getenv(services.FolderVariable)
	return world.Start(ctx, opts)
}

// loadBench is the installation with a scripted model.
type loadBench struct {
	loadConfig
	world    *world.World
	client   client.Client
	observer *observer
}

// loadModel calls a tool in every turn but a run's last one.
const loadModel = `
model: worker
record: false
replies:
  - match: {step: %d}
    content: [{text: "All sums are done."}]
    usage: {input: 1000, output: 20}
    latency: %s
    repeat: true
  - content: [{text: "The next sum."}, {toolCall: {name: tools__add, arguments: {a: 1, b: 2}}}]
    usage: {input: 1000, output: 20}
    latency: %s
    repeat: true
`

func newLoadBench(ctx context.Context, w *world.World, c loadConfig) (*loadBench, error) {
	if c.runs < 1 || c.turns < 1 {
		return nil, errors.New("use at least one run and one turn")
	}
	if _, err := w.Models.LoadYAML(fmt.Appendf(nil, loadModel, c.turns, c.delay, c.delay), ""); err != nil {
		return nil, fmt.Errorf("load the model script: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		return nil, err
	}
	direct, err := client.New(w.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	following, err := observe(ctx, w.Config, scheme, c.turns)
	return &loadBench{loadConfig: c, world: w, client: direct, observer: following}, err
}

// round is what one round of runs showed.
type round struct {
	wall time.Duration
	// waits are the seconds from the first run's creation to each run's start, lasts those from its start to its end.
	waits, lasts []float64
	writes       writes
	// runStatus and sessionStatus are the largest status objects that were seen at any time, in bytes of JSON.
	runStatus, sessionStatus int
}

// round makes a namespace with sessions, starts one run in each at once and waits for all of them.
func (b *loadBench) round(ctx context.Context, namespace string) (round, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute+10*time.Duration(b.turns)*b.delay)
	defer cancel()
	if err := b.prepare(ctx, namespace); err != nil {
		return round{}, err
	}
	before, err := b.quiet(ctx)
	if err != nil {
		return round{}, err
	}
	var got round
	begun := time.Now()
	var creating errgroup.Group
	for i := range b.runs {
		creating.Go(func() error { return b.client.Create(ctx, loadRun(namespace, i)) })
	}
	if err := creating.Wait(); err != nil {
		return round{}, fmt.Errorf("create runs: %w", err)
	}
	ended := func(s *seen) bool { return len(s.ended) == b.runs }
	if _, _, err := b.observer.wait(ctx, namespace, ended); err != nil {
		return round{}, err
	}
	got.wall = time.Since(begun)
	after, err := b.quiet(ctx)
	if err != nil {
		return round{}, err
	}
	got.writes = after.since(before)
	got.writes["agentruns"] -= b.runs // ours
	if got.runStatus, got.sessionStatus, err = b.observer.wait(ctx, namespace, ended); err != nil {
		return round{}, err
	}
	got.waits, got.lasts, err = b.logged(ctx, namespace, begun)
	return got, err
}

func (b *loadBench) prepare(ctx context.Context, namespace string) error {
	if err := b.world.Namespace(ctx, namespace); err != nil {
		return err
	}
	provider := &api.ModelProvider{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "models"},
		Spec: api.ModelProviderSpec{
			Protocol: api.ProtocolAnthropic, BaseURL: b.world.ModelsURL,
			Models: []api.Model{{ID: "worker", ContextWindow: 32000, MaxOutputTokens: 4096}},
		},
	}
	if err := b.client.Create(ctx, provider); err != nil {
		return fmt.Errorf("create the provider: %w", err)
	}
	for i := range b.runs {
		session := &api.AgentSession{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: sessionName(i)},
			Spec: api.AgentSessionSpec{
				Model:        api.SessionModel{ProviderRef: api.ProviderRef{Name: "models"}, Model: "worker"},
				Instructions: []api.PromptSection{{Name: "project", Text: "Add numbers."}},
				ToolServers: []api.ToolServer{{
					Name: "tools", URL: b.world.ToolsURL + mcpserver.Path, Allow: []string{"add"}, RetrySafe: []string{"add"}, Declaration: api.DeclarationDirect,
				}},
			},
		}
		if err := b.client.Create(ctx, session); err != nil {
			return fmt.Errorf("create a session: %w", err)
		}
	}
	_, _, err := b.observer.wait(ctx, namespace, func(s *seen) bool { return len(s.ready) == b.runs })
	return err
}

func sessionName(i int) string { return fmt.Sprintf("session-%03d", i) }

func loadRun(namespace string, i int) *api.AgentRun {
	return &api.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("run-%03d", i)},
		Spec: api.AgentRunSpec{
			SessionRef: api.SessionRef{Name: sessionName(i)}, Input: &api.RunInput{Text: "Add the numbers one after another."},
		},
	}
}
