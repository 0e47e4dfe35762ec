package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/test/world"
)

// measureRuntime tells what runs cost the cluster, a worker's memory, and what more workers gain.
func measureRuntime(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	var figures []Figure
	for _, part := range []struct {
		name    string
		flags   []string
		measure func(context.Context, *world.World, loadConfig, func(string, ...any)) ([]Figure, error)
	}{
		{"etcd", nil, measureEtcd},
		{"live", []string{"--max-concurrent-runs=1000", "--drain-timeout=1s", "--pprof-address=" + liveProfiles}, measureLive},
		{"scale", []string{"--role=controllers"}, measureScale},
	} {
		opts := world.Options{ManagerFlags: append([]string{"--log-level=info"}, part.flags...)}
		got, err := inWorld(ctx, c.load, opts, say, func(w *world.World) ([]Figure, error) { return part.measure(ctx, w, c.load, say) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		figures = append(figures, got...)
	}
	return figures, nil
}

const (
	// etcdTurns is how many turns the run has whose conversation is kept here and there.
	etcdTurns = 50
	// etcdResult is how long each of its tool results is, in bytes.
	etcdResult = 2000
)

// etcdModel reads a text in each turn but the last.
const etcdModel = `
model: reader
record: false
replies:
  - match: {step: %d}
    content: [{text: "All of it was read."}]
    repeat: true
  - content: [{text: "The next part."}, {toolCall: {name: tools__big, arguments: {bytes: %d}}}]
    repeat: true
`

// measureEtcd compares what a run of many turns sends to etcd with what it would be if the conversation stood in the status
// of an object that is written after each turn.
func measureEtcd(ctx context.Context, w *world.World, c loadConfig, say func(string, ...any)) ([]Figure, error) {
	c.runs, c.turns, c.delay = 1, etcdTurns, 0
	b, err := newLoadBench(ctx, w, c)
	if err != nil {
		return nil, err
	}
	defer b.observer.stop()
	if _, err := w.Models.LoadYAML(fmt.Appendf(nil, etcdModel, etcdTurns, etcdResult), ""); err != nil {
		return nil, err
	}
	if err := b.prepare(ctx, "etcd"); err != nil {
		return nil, err
	}
	owner := &api.AgentSession{}
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: "etcd", Name: sessionName(0)}, owner); err != nil {
		return nil, err
	}
	owner.Spec.Model.Model, owner.Spec.ToolServers[0].Allow, owner.Spec.ToolServers[0].RetrySafe = "reader", []string{"big"}, nil
	target := &api.ModelProvider{}
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: "etcd", Name: "models"}, target); err != nil {
		return nil, err
	}
	target.Spec.Models = append(target.Spec.Models, api.Model{ID: "reader", ContextWindow: 200000, MaxOutputTokens: 4096})
	for _, changed := range []client.Object{target, owner} {
		if err := b.client.Update(ctx, changed); err != nil {
			return nil, err
		}
	}
	ours, count, err := b.spent(ctx, func() error {
		if err := b.client.Create(ctx, loadRun("etcd", 0)); err != nil {
			return err
		}
		_, _, err := b.observer.wait(ctx, "etcd", func(s *seen) bool { return len(s.ended) == 1 })
		return err
	})
	if err != nil {
		return nil, err
	}
	theirs, err := b.peer(ctx)
	if err != nil {
		return nil, err
	}
	say("a run of %d turns: %d bytes to etcd, %d when the conversation is in a status", etcdTurns, ours, theirs)
	return []Figure{
		figure("runtime", fmt.Sprintf("API writes of a run of %d turns", etcdTurns), "", float64(count)).atMost(10),
		figure("runtime", "bytes that they send to etcd", "KiB", float64(ours)/1024),
		figure("runtime", "bytes with the conversation in a status ÷ these", "×", float64(theirs)/float64(ours)).atLeast(10),
	}, nil
}

var etcdReceived = regexp.MustCompile(`(?m)^etcd_network_client_grpc_received_bytes_total (\S+)$`)

// received is how many bytes etcd has got from the API server.
func (b *loadBench) received(ctx context.Context) (int64, error) {
	raw, err := b.world.EtcdMetrics(ctx)
	if err != nil {
		return 0, err
	}
	match := etcdReceived.FindSubmatch(raw)
	if match == nil {
		return 0, errors.New("etcd does not tell how many bytes it got")
	}
	n, err := strconv.ParseFloat(string(match[1]), 64)
	return int64(n), err
}

// idleFor is how long etcd is watched while nothing happens: what it gets then is taken off.
const idleFor = 5 * time.Second

// spent is how many bytes etcd gets while something is done, and how many writes of agentloop's that are, without what it
// gets anyway and what this program writes itself.
func (b *loadBench) spent(ctx context.Context, do func() error) (bytes int64, count int, err error) {
	before, err := b.quiet(ctx)
	if err != nil {
		return 0, 0, err
	}
	idle, err := b.received(ctx)
	if err != nil {
		return 0, 0, err
	}
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	start, err := b.received(ctx)
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	if err := do(); err != nil {
		return 0, 0, err
	}
	after, err := b.quiet(ctx)
	if err != nil {
		return 0, 0, err
	}
	end, err := b.received(ctx)
	if err != nil {
		return 0, 0, err
	}
	rate := float64(start-idle) / idleFor.Seconds()
	return end - start - int64(rate*time.Since(begun).Seconds()), after.since(before).total() - 1, nil
}

// peer keeps the same conversation in the status of an object, written once after each turn.
func (b *loadBench) peer(ctx context.Context) (int64, error) {
	kind := schema.GroupVersionKind{Group: "bench.agentloop.dev", Version: "v1", Kind: "Conversation"}
	preserve := true
	definition := &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "conversations.bench.agentloop.dev"},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: kind.Group, Scope: apiextensions.NamespaceScoped,
			Names: apiextensions.CustomResourceDefinitionNames{Plural: "conversations", Singular: "conversation", Kind: kind.Kind, ListKind: "ConversationList"},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true,
				Schema:       &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}},
				Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}},
			}},
		},
	}
	if _, err := envtest.InstallCRDs(b.world.Config, envtest.CRDInstallOptions{CRDs: []*apiextensions.CustomResourceDefinition{definition}}); err != nil {
		return 0, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace("etcd")
	object.SetName("peer")
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		return b.client.Create(ctx, object) == nil, nil // its kind is served a moment later
	}); err != nil {
		return 0, err
	}
	text := strings.Repeat("0123456789abcde\n", etcdResult/16+1)[:etcdResult]
	bytes, _, err := b.spent(ctx, func() error {
		var messages []any
		for turn := range etcdTurns {
			messages = append(messages, map[string]any{"role": "assistant", "content": "The next part.", "toolCalls": []any{map[string]any{
				"id": fmt.Sprintf("call_%d", turn), "name": "tools__big", "arguments": fmt.Sprintf(`{"bytes":%d}`, etcdResult),
			}}}, map[string]any{"role": "tool", "toolCallId": fmt.Sprintf("call_%d", turn), "content": text})
			if err := unstructured.SetNestedSlice(object.Object, messages, "status", "contextWindow"); err != nil {
				return err
			}
			if err := b.client.Status().Update(ctx, object); err != nil {
				return err
			}
		}
		return nil
	})
	return bytes, err
}

// liveProfiles is where the manager tells what of its memory is in use: a port below those of outgoing connections.
const liveProfiles = "127.0.0.1:16061"

// liveRuns is how many runs wait for the model at once.
const liveRuns = 500

const liveModel = `
model: worker
record: false
replies:
  - content: [{text: "At last."}]
    latency: 90s
    repeat: true
`

// measureLive tells what memory a run takes that waits for its model.
func measureLive(ctx context.Context, w *world.World, c loadConfig, say func(string, ...any)) ([]Figure, error) {
	c.runs, c.turns, c.delay = liveRuns, 1, time.Second
	b, err := newLoadBench(ctx, w, c)
	if err != nil {
		return nil, err
	}
	defer b.observer.stop()
	if _, err := w.Models.LoadYAML([]byte(liveModel), ""); err != nil {
		return nil, err
	}
	if err := b.prepare(ctx, "live"); err != nil {
		return nil, err
	}
	manager := process{w.Manager.PID()}
	before, err := inUse(ctx)
	if err != nil {
		return nil, err
	}
	resident, _, err := manager.resident()
	if err != nil {
		return nil, err
	}
	for i := range b.runs {
		if err := b.client.Create(ctx, loadRun("live", i)); err != nil {
			return nil, err
		}
	}
	if err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, 80*time.Second, true, func(context.Context) (bool, error) {
		return w.Models.Open() >= liveRuns, nil
	}); err != nil {
		return nil, fmt.Errorf("%d of %d requests are open: %w", w.Models.Open(), liveRuns, err)
	}
	after, err := inUse(ctx)
	if err != nil {
		return nil, err
	}
	residentThen, _, err := manager.resident()
	if err != nil {
		return nil, err
	}
	goroutines, err := profileCount(ctx, "goroutine")
	if err != nil {
		return nil, err
	}
	say("the manager uses %d MiB without runs and %d MiB with %d that wait for the model; resident are %d and %d MiB", before>>20, after>>20, liveRuns, resident>>20, residentThen>>20)
	return []Figure{
		figure("runtime", "memory in use for a run that waits for its model", "KiB", float64(after-before)/1024/liveRuns).atMost(150),
		figure("runtime", "goroutines for it, the manager's own included", "", float64(goroutines)/liveRuns),
		figure("runtime", "resident memory for it, garbage included", "KiB", float64(residentThen-resident)/1024/liveRuns),
	}, nil
}

var memoryInUse = regexp.MustCompile(`(?m)^# (?:HeapAlloc = (\d+)|Stack = (\d+) / \d+)$`)

// inUse is what a manager's heap and stacks take once the garbage is collected, in bytes. Each collection halves the stacks that
// have become too large.
func inUse(ctx context.Context) (n int64, err error) {
	for range 4 {
		if n, err = collected(ctx); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// profileText is a profile of the manager as text.
func profileText(ctx context.Context, what string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+liveProfiles+"/debug/pprof/"+what, nil)
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

var profileTotal = regexp.MustCompile(`^\w+ profile: total (\d+)`)

// profileCount is how many of something the manager has.
func profileCount(ctx context.Context, what string) (int64, error) {
	raw, err := profileText(ctx, what+"?debug=1")
	if err != nil {
		return 0, err
	}
	match := profileTotal.FindSubmatch(raw)
	if match == nil {
		return 0, fmt.Errorf("the manager does not tell its number of %ss", what)
	}
	return strconv.ParseInt(string(match[1]), 10, 64)
}

// collected is what is in use after one collection.
func collected(ctx context.Context) (int64, error) {
	raw, err := profileText(ctx, "heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	var sum int64
	found := memoryInUse.FindAllSubmatch(raw, -1)
	if len(found) != 2 {
		return 0, errors.New("the manager does not tell what memory it uses")
	}
	for _, match := range found {
		n, err := strconv.ParseInt(string(append(match[1], match[2]...)), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

const (
	scaleRuns  = 64
	scaleSlots = "--max-concurrent-runs=8"
	scaleTurns = 3
	scaleDelay = 2 * time.Second
)

// measureScale runs the same work with one worker and with four, each a process with a few slots.
func measureScale(ctx context.Context, w *world.World, c loadConfig, say func(string, ...any)) ([]Figure, error) {
	w.ManagerFlags = append(w.ManagerFlags, scaleSlots)
	c.runs, c.turns, c.delay = scaleRuns, scaleTurns, scaleDelay
	b, err := newLoadBench(ctx, w, c)
	if err != nil {
		return nil, err
	}
	defer b.observer.stop()
	walls := map[int]float64{}
	started := 0
	for _, workers := range []int{1, 4} {
		for ; started < workers; started++ {
			if _, err := w.StartWorker(ctx, fmt.Sprintf("bench-worker-%d", started+1), ""); err != nil {
				return nil, err
			}
		}
		got, err := b.round(ctx, fmt.Sprintf("scale-%d", workers))
		if err != nil {
			return nil, fmt.Errorf("%d workers: %w", workers, err)
		}
		walls[workers] = got.wall.Seconds()
		say("%d workers: %.1f s for %d runs", workers, walls[workers], scaleRuns)
	}
	return []Figure{figure("runtime", "time with one worker ÷ time with four, work that waits for the model", "×", walls[1]/walls[4]).atLeast(3)}, nil
}
