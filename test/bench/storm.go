package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
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
}

func (c *stormConfig) bind(fs *flag.FlagSet) {
	fs.IntVar(&c.namespaces, "storm-namespaces", 51, "namespaces in which runs are made at once")
	fs.IntVar(&c.runs, "storm-runs", 100, "runs of each, every one in a session of its own")
	fs.DurationVar(&c.delay, "storm-delay", 500*time.Millisecond, "how long the model takes for its answer")
	fs.Int64Var(&c.memory, "storm-memory", 128<<20, "what the manager may have, in bytes; 0 for no limit")
}

// stormLimit bounds a storm from its first run to its last end.
const stormLimit = 20 * time.Minute

// measureStorm makes many runs at once in many namespaces, for one manager whose memory is limited by the kernel: how many
// come to their end, how long that takes, and what memory the manager needs.
func measureStorm(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	opts := world.Options{ManagerFlags: []string{"--log-level=warn"}}
	if c.storm.memory > 0 {
		opts.ManagerEnv = []string{fmt.Sprintf("GOMEMLIMIT=%d", c.storm.memory*9/10)}
	}
	return inWorld(ctx, c.load, opts, say, func(w *world.World) ([]Figure, error) { return stormIn(ctx, w, c, say) })
}

func stormIn(ctx context.Context, w *world.World, c config, say func(string, ...any)) (figures []Figure, err error) {
	b, err := newLoadBench(ctx, w, loadConfig{runs: c.storm.runs, turns: 1, delay: c.storm.delay})
	if err != nil {
		return nil, err
	}
	defer b.observer.stop()
	pid := w.Manager.PID()
	if c.storm.memory > 0 {
		release, limited := confine(pid, c.storm.memory)
		if limited != nil {
			return nil, limited
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	watched, stop := whileAlive(ctx, w.Manager)
	defer stop()
	got, err := b.storm(watched, c.storm, say)
	if err != nil {
		return nil, errors.Join(err, context.Cause(watched))
	}
	_, most, err := process{pid}.resident()
	if err != nil {
		return nil, err
	}
	cpu, err := process{pid}.cpu()
	if err != nil {
		return nil, err
	}
	total := c.storm.namespaces * c.storm.runs
	memory := figure("storm", "most memory of the manager (VmHWM)", "MiB", float64(most)/(1<<20))
	if c.storm.memory > 0 {
		memory = memory.atMost(float64(c.storm.memory) / (1 << 20))
	}
	return []Figure{
		figure("storm", fmt.Sprintf("runs that completed, of %d in %d namespaces", total, c.storm.namespaces), "", float64(got.completed)).atLeast(float64(total)),
		figure("storm", "time from the first creation to the last end", "s", got.wall.Seconds()),
		figure("storm", "runs a second", "", float64(got.completed)/got.wall.Seconds()),
		memory,
		figure("storm", "processor time of the manager for each run", "ms", float64(cpu.Milliseconds())/float64(total)),
	}, nil
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

// confine lets a process have so much memory and no more: the kernel kills it when it needs more. It needs root.
func confine(pid int, bytes int64) (release func() error, err error) {
	name := fmt.Sprintf("agentloop-bench-%d", pid)
	root, limit := "/sys/fs/cgroup", "memory.max"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		root, limit = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	}
	group := filepath.Join(root, name)
	if err := os.Mkdir(group, 0o755); err != nil {
		return nil, fmt.Errorf("the manager's memory cannot be limited here (root is needed; -storm-memory=0 goes without): %w", err)
	}
	for _, setting := range []struct{ file, value string }{{limit, strconv.FormatInt(bytes, 10)}, {"cgroup.procs", strconv.Itoa(pid)}} {
		if err := os.WriteFile(filepath.Join(group, setting.file), []byte(setting.value), 0); err != nil {
			return nil, errors.Join(fmt.Errorf("limit the manager's memory: %w", err), os.Remove(group))
		}
	}
	return func() error { // the process goes on outside
		err := os.WriteFile(filepath.Join(root, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if errors.Is(err, syscall.ESRCH) { // it has ended
			err = nil
		}
		return errors.Join(err, os.Remove(group))
	}, nil
}

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
