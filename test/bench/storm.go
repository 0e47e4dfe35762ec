package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/test/services"
	"github.com/agentloop/agentloop/test/world"
)

type stormConfig struct {
	namespaces, runs int
	delay            time.Duration
	memory           int64
	profiles         string
}

func (c *stormConfig) bind(fs *flag.FlagSet) {
	fs.IntVar(&c.namespaces, "storm-namespaces", 51, "namespaces in which runs are made at once")
	fs.IntVar(&c.runs, "storm-runs", 100, "runs of each, every one in a session of its own")
	fs.DurationVar(&c.delay, "storm-delay", 500*time.Millisecond, "how long the model takes for its answer")
	fs.Int64Var(&c.memory, "storm-memory", 128<<20, "what the manager may have, in bytes; 0 for no limit")
	fs.StringVar(&c.profiles, "storm-profiles", "", "folder in which profiles of the manager's heap and goroutines are stored every ten seconds; empty for none")
}

// stormLimit bounds a storm from its first run to its last end.
const stormLimit = 20 * time.Minute

// measureStorm makes many runs at once in many namespaces, for one manager whose memory is limited by the kernel: how many
// come to their end, how long that takes, and what memory the manager needs.
func measureStorm(ctx context.Context, c config, say func(string, ...any)) (figures []Figure, err error) {
	opts := world.Options{ManagerFlags: []string{"--log-level=warn"}}
	if c.storm.profiles != "" {
		opts.ManagerFlags = append(opts.ManagerFlags, "--pprof-address="+stormProfiles)
		opts.ManagerEnv = append(opts.ManagerEnv, "GODEBUG=memprofilerate=16384")
	}
	if c.storm.memory > 0 {
		group, err := newMemoryGroup(c.storm.memory)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, group.remove()) }()
		opts.ManagerCommand = group.hold
	}
	return inWorld(ctx, c.load, opts, say, func(w *world.World) ([]Figure, error) { return stormIn(ctx, w, c, say) })
}

func stormIn(ctx context.Context, w *world.World, c config, say func(string, ...any)) ([]Figure, error) {
	b, err := newLoadBench(ctx, w, loadConfig{runs: c.storm.runs, turns: 1, delay: c.storm.delay})
	if err != nil {
		return nil, err
	}
	defer b.observer.stop()
	watched, stop := whileAlive(ctx, w.Manager)
	defer stop()
	if c.storm.profiles != "" {
		go profile(watched, c.storm.profiles, say)
	}
	got, err := b.storm(watched, c.storm, say)
	if err != nil {
		return nil, errors.Join(err, context.Cause(watched))
	}
	pid := w.Manager.PID()
	_, most, err := process{pid}.resident()
	if err != nil {
		return nil, err
	}
	cpu, err := process{pid}.cpu()
	if err != nil {
		return nil, err
	}
	total := c.storm.namespaces * c.storm.runs
	return []Figure{
		figure("storm", fmt.Sprintf("runs that completed, of %d in %d namespaces", total, c.storm.namespaces), "", float64(got.completed)).atLeast(float64(total)),
		figure("storm", "time from the first creation to the last end", "s", got.wall.Seconds()),
		figure("storm", "runs a second", "", float64(got.completed)/got.wall.Seconds()),
		figure("storm", "memory that the manager may have", "MiB", float64(c.storm.memory)/(1<<20)),
		figure("storm", "most that was resident of it, its program's file included (VmHWM)", "MiB", float64(most)/(1<<20)),
		figure("storm", "processor time of the manager for each run", "ms", float64(cpu.Milliseconds())/float64(total)),
	}, nil
}

const (
	// stormProfiles is where the manager serves profiles when they are asked for: a port below those of outgoing connections.
	stormProfiles = "127.0.0.1:16062"
	// profileEvery is how often they are taken.
	profileEvery = 10 * time.Second
)

// profile stores profiles of the manager's memory until ctx ends: of what is in use, and of what it was made for. It
// collects no garbage for that, so that it changes nothing of what is measured.
func profile(ctx context.Context, dir string, say func(string, ...any)) {
	for n := 1; ; n++ {
		select {
		case <-time.After(profileEvery):
		case <-ctx.Done():
			return
		}
		for what, file := range map[string]string{"heap": "heap-%03d.pb.gz", "goroutine": "goroutine-%03d.pb.gz", "heap?debug=1": "heap-%03d.txt"} {
			err := fetchProfile(ctx, "http://"+stormProfiles+"/debug/pprof/"+what, filepath.Join(dir, fmt.Sprintf(file, n)))
			if err != nil && ctx.Err() == nil {
				say("no profile: %v", err)
			}
		}
	}
}

func fetchProfile(ctx context.Context, url, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o644)
}

// errEnded is the cause with which a measurement ends whose process is gone.
var errEnded = errors.New("the manager's process ended, killed by the kernel if it needed more memory than it may have: see its log")

// whileAlive is a context that ends with a process. stop must be called.
func whileAlive(ctx context.Context, p *services.Process) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	go func() {
		for p.Running() {
			select {
			case <-time.After(time.Second):
			case <-watched.Done():
				return
			}
		}
		cancel(errEnded)
	}()
	return watched, func() { cancel(nil) }
}

// memoryGroup is a control group whose processes have so much memory and no more: the kernel kills one that needs more.
type memoryGroup struct{ path string }

// newMemoryGroup makes a group. It needs root.
func newMemoryGroup(bytes int64) (*memoryGroup, error) {
	root, limit := "/sys/fs/cgroup", "memory.max"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		root, limit = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	}
	g := &memoryGroup{path: filepath.Join(root, fmt.Sprintf("agentloop-bench-%d", os.Getpid()))}
	if err := os.Mkdir(g.path, 0o755); err != nil {
		return nil, fmt.Errorf("the manager's memory cannot be limited here (root is needed; -storm-memory=0 goes without): %w", err)
	}
	if err := os.WriteFile(filepath.Join(g.path, limit), []byte(strconv.FormatInt(bytes, 10)), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("limit the manager's memory: %w", err), os.Remove(g.path))
	}
	return g, nil
}

// hold has a command start inside the group, so that all of its memory counts, and it can see the limit.
func (g *memoryGroup) hold(command *exec.Cmd) {
	command.Args = append([]string{"sh", "-c", `echo 0 >"$0" && exec "$@"`, filepath.Join(g.path, "cgroup.procs"), command.Path}, command.Args[1:]...)
	command.Path = "/bin/sh"
}

// remove needs an empty group: the processes have ended.
func (g *memoryGroup) remove() error { return os.Remove(g.path) }

// stormed is what a storm showed.
type stormed struct {
	completed int
	wall      time.Duration
}

func (b *loadBench) storm(ctx context.Context, c stormConfig, say func(string, ...any)) (stormed, error) {
	ctx, cancel := context.WithTimeout(ctx, stormLimit)
	defer cancel()
	name := func(i int) string { return fmt.Sprintf("storm-%02d", i) }
	begun := time.Now()
	for i := range c.namespaces {
		if err := b.prepare(ctx, name(i)); err != nil {
			return stormed{}, fmt.Errorf("prepare %s: %w", name(i), err)
		}
	}
	say("%d sessions in %d namespaces are ready after %.0f s", c.namespaces*c.runs, c.namespaces, time.Since(begun).Seconds())
	begun = time.Now()
	var creating errgroup.Group
	creating.SetLimit(8)
	for run := range c.runs {
		for i := range c.namespaces {
			creating.Go(func() error { return b.client.Create(ctx, loadRun(name(i), run)) })
		}
	}
	if err := creating.Wait(); err != nil {
		return stormed{}, fmt.Errorf("create runs: %w", err)
	}
	say("%d runs are made after %.0f s", c.namespaces*c.runs, time.Since(begun).Seconds())
	for i := range c.namespaces {
		if _, _, err := b.observer.wait(ctx, name(i), func(s *seen) bool { return len(s.ended) == c.runs }); err != nil {
			return stormed{}, fmt.Errorf("%s: %w", name(i), err)
		}
	}
	got := stormed{wall: time.Since(begun)}
	runs := &api.AgentRunList{}
	for i := range c.namespaces {
		if err := b.client.List(ctx, runs, client.InNamespace(name(i))); err != nil {
			return got, err
		}
		for j := range runs.Items {
			for _, condition := range runs.Items[j].Status.Conditions {
				if condition.Type == api.ConditionSucceeded && condition.Reason == api.RunReasonCompleted {
					got.completed++
				}
			}
		}
	}
	return got, nil
}
