package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/test/world"
)

const (
	// recoveryRuns are under way when their worker is killed.
	recoveryRuns = 8
	// recoveryKills is how many workers are killed, one after another.
	recoveryKills = 3
	// recoveryWait is the default of --ack-wait, recoveryLimit what is allowed.
	recoveryWait  = 30 * time.Second
	recoveryLimit = recoveryWait + 10*time.Second
)

// recoveryModel never answers.
const recoveryModel = `
model: worker
record: false
replies:
  - hang: true
    repeat: true
`

// measureRecovery kills workers with runs under way, in an installation with the defaults of production, and tells how long
// it is until another worker has begun each of them again.
func measureRecovery(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	opts := world.Options{ManagerFlags: []string{"--log-level=info", "--role=controllers"}}
	return inWorld(ctx, c.load, opts, say, func(w *world.World) ([]Figure, error) {
		samples, err := recoveries(ctx, w, c.load, say)
		if err != nil {
			return nil, err
		}
		slowest := 0.0
		for _, s := range samples {
			slowest = max(slowest, s)
		}
		return []Figure{
			figure("recovery", "time until a run is begun again after its worker was killed", "s", samples...),
			figure("recovery", fmt.Sprintf("the slowest of %d", len(samples)), "s", slowest).atMost(recoveryLimit.Seconds()),
		}, nil
	})
}

func recoveries(ctx context.Context, w *world.World, c loadConfig, say func(string, ...any)) ([]float64, error) {
	c.runs, c.turns, c.delay = recoveryRuns, 1, time.Second
	b, err := newLoadBench(ctx, w, c)
	if err != nil {
		return nil, err
	}
	defer b.observer.stop()
	if _, err := w.Models.LoadYAML([]byte(recoveryModel), ""); err != nil {
		return nil, err
	}
	const namespace = "recovery"
	if err := b.prepare(ctx, namespace); err != nil {
		return nil, err
	}
	victim, err := w.StartWorker(ctx, "worker-0", "")
	if err != nil {
		return nil, err
	}
	for i := range b.runs {
		run := loadRun(namespace, i)
		run.Spec.Limits.MaxAttempts = recoveryKills + 2
		if err := b.client.Create(ctx, run); err != nil {
			return nil, err
		}
	}
	var samples []float64
	for kill := 1; kill <= recoveryKills; kill++ {
		if err := b.begun(ctx, namespace, kill); err != nil {
			return nil, err
		}
		next, err := w.StartWorker(ctx, fmt.Sprintf("worker-%d", kill), "")
		if err != nil {
			return nil, err
		}
		// Not at the same moment between two heartbeats each time.
		<-time.After(time.Duration(kill-1) * 3 * time.Second)
		killed := time.Now()
		if err := victim.Kill(); err != nil {
			return nil, err
		}
		if err := b.begun(ctx, namespace, kill+1); err != nil {
			return nil, err
		}
		starts, err := b.attempts(ctx, namespace, kill+1)
		if err != nil {
			return nil, err
		}
		for _, at := range starts {
			samples = append(samples, at.Sub(killed).Seconds())
		}
		say("kill %d: all runs were begun again within %.1f s", kill, time.Since(killed).Seconds())
		victim = next
	}
	return samples, nil
}

// begun waits until every run has been begun so often.
func (b *loadBench) begun(ctx context.Context, namespace string, attempt int) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		_, last = b.attempts(ctx, namespace, attempt)
		return last == nil && b.world.Models.Open() >= b.runs, nil
	})
	if err != nil {
		return fmt.Errorf("attempt %d of all runs: %w", attempt, errors.Join(err, last))
	}
	return nil
}

// attempts reads from the run events when each run was begun for that time. An error says that one was not yet.
func (b *loadBench) attempts(ctx context.Context, namespace string, attempt int) ([]time.Time, error) {
	var out []time.Time
	err := b.eachStream(ctx, namespace, func(log *natslog.Log, stream runevent.Stream) error {
		return log.Read(ctx, stream, 0, func(record runevent.Record) error {
			entry, err := runevent.Decode(record.Raw)
			if err == nil && entry.Event.Type == runevent.TypeRunStarted && entry.Event.Attempt == attempt {
				out = append(out, entry.CreatedAt)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if len(out) != b.runs {
		return nil, fmt.Errorf("%d of %d runs", len(out), b.runs)
	}
	return out, nil
}
