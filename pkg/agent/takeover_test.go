package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// A: cancel while tools connect on a fresh session
type blockingTools struct {
	*scriptedTools
	onConnect func()
}

func (b *blockingTools) Connect(ctx context.Context, want *session.ToolSet) (tool.Set, error) {
	b.onConnect()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return b.scriptedTools.Connect(ctx, want)
}

func TestCancelDuringConnect(t *testing.T) {
	for _, second := range []bool{false, true} {
		t.Run(fmt.Sprint("second=", second), func(t *testing.T) {
			w := newWorld(t)
			if second {
				w.model.replies = []reply{says("x")}
				if _, err := w.execute(context.Background(), w.run("u0", "first")); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			deps := w.deps()
			deps.Tools = &blockingTools{w.tools, func() { cancel(ErrCancelled) }}
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Errorf("PANIC: %v", r)
					}
				}()
				got, err := Execute(ctx, deps, w.run("u1", "hi"))
				t.Logf("%+v %v", got, err)
			}()
			t.Log(w.events())
			st, err := LoadState(context.Background(), w.log, w.store, w.run("x", "").Stream())
			if err != nil {
				t.Fatal(err)
			}
			if st.Run != nil {
				t.Logf("last run %s terminal %v recent %v ended(u1)=%v", st.Run.UID, st.Run.Terminal, st.Recent, st.Ended("u1"))
			}
		})
	}
}

// B: state.committed append unknown at cancel
type flakyLog struct {
	runevent.Log
	mu sync.Mutex
	// hook is called before an append; lose says answer lost after (stored) or before.
	hook func(e runevent.Event) (lose bool, stored bool)
}

func (f *flakyLog) Append(ctx context.Context, s runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	e, _ := runevent.Decode(raw)
	f.mu.Lock()
	hook := f.hook
	f.mu.Unlock()
	if hook != nil {
		if lose, stored := hook(e.Event); lose {
			if stored {
				if _, err := f.Log.Append(context.Background(), s, expect, raw); err != nil {
					return runevent.Head{}, err
				}
			}
			return runevent.Head{}, fmt.Errorf("%w: lost", runevent.ErrUnavailable)
		}
	}
	return f.Log.Append(ctx, s, expect, raw)
}

func TestCommitUnknownAtCancel(t *testing.T) {
	for _, kind := range []string{"state.committed", "context.captured", "message.user", "model.completed", "tool.result", "tool.started", "run.started", "body"} {
		for _, stored := range []bool{true, false} {
			t.Run(fmt.Sprint(kind, stored), func(t *testing.T) {
				w := newWorld(t)
				ctx, cancel := context.WithCancelCause(context.Background())
				once := true
				w.log = &flakyLog{Log: w.log, hook: func(e runevent.Event) (bool, bool) {
					name := string(e.Type)
					if e.Kind != "" {
						name = string(e.Kind)
					}
					if name == kind && once {
						once = false
						cancel(ErrCancelled)
						return true, stored
					}
					return false, false
				}}
				w.tools.definitions = []tool.Definition{defined("add")}
				w.model.replies = []reply{calls("add"), says("done")}
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() {
						if r := recover(); r != nil {
							t.Errorf("PANIC: %v", r)
						}
					}()
					deps := w.deps()
					n := 0
					deps.Sleep = func(ctx context.Context, d time.Duration) error {
						if n++; n > 20 {
							return errors.New("gave up")
						}
						return ctx.Err()
					}
					got, err := Execute(ctx, deps, w.run("u1", "hi"))
					t.Logf("%+v %v", got, err)
				}()
				<-done
				t.Log(w.events())
				if _, err := LoadState(context.Background(), w.log, w.store, w.run("x", "").Stream()); err != nil {
					t.Errorf("SESSION BRICKED: %v", err)
					return
				}
				_, h := w.state()
				t.Log(roles(h))
				adv := session.Empty(runevent.MainAgent)
				if err := Advance(context.Background(), w.log, w.store, w.run("x", "").Stream(), &adv); err != nil {
					t.Errorf("advance: %v", err)
				}
				st, _ := w.state()
				if len(adv.History) != len(st.History) || len(adv.Snapshots) != len(st.Snapshots) {
					t.Errorf("advance and load differ: history %d/%d snapshots %d/%d", len(adv.History), len(st.History), len(adv.Snapshots), len(st.Snapshots))
				}
				w.model.replies = []reply{says("back")}
				if got, err := w.execute(context.Background(), w.run("u2", "again")); err != nil {
					t.Errorf("next run: %+v %v", got, err)
				}
			})
		}
	}
}

// C: digests of all contexts
func (w *world) checkContexts(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	scope := w.run("x", "").Scope()
	n := 0
	for _, e := range w.entries() {
		if e.Event.Kind != runevent.KindContextCaptured {
			continue
		}
		n++
		raw, err := w.store.Get(ctx, scope, *e.Event.Evidence.ContextRef)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := session.DecodeObject[session.ContextSnapshot](raw)
		if err != nil {
			t.Fatal(err)
		}
		raws, err := cas.NewResolver(w.store, session.MessageIn, cas.ResolverOptions{}).List(ctx, scope, snap.Messages)
		if err != nil {
			t.Fatal(err)
		}
		system := ""
		if snap.System != nil {
			raw, _ := w.store.Get(ctx, scope, *snap.System)
			s, err := session.DecodeObject[session.Sections](raw)
			if err != nil {
				t.Fatal(err)
			}
			system = projection.RenderSystem(s.Sections)
		}
		var tools []message.Tool
		if snap.Tools != nil {
			raw, _ := w.store.Get(ctx, scope, *snap.Tools)
			s, err := session.DecodeObject[session.ToolSet](raw)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range s.Tools {
				tools = append(tools, d.Tool)
			}
		}
		input := session.AppendInput(nil, system, raws, tools)
		if cas.Of(input) != snap.InputDigest || int64(len(input)) != snap.InputSize {
			t.Errorf("context %d: input digest differs (%d bytes, recorded %d)\n%.1500s", n, len(input), snap.InputSize, input)
		}
		if err := projection.Validate(projection.ModelInputProjection{HistoryMessageCount: snap.Assembly.HistoryMessageCount, Sources: session.UnpackSources(snap.Assembly.Sources), SkillExpansions: snap.Assembly.SkillExpansions}, len(raws), snap.Assembly.HistoryMessageCount); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d contexts checked", n)
}

func TestContextDigests(t *testing.T) {
	w := newWorld(t)
	img := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1, 2, 3}, 5000))
	d := defined("add")
	if testing.Verbose() {
		d.Parameters = []byte(`{"type":"object","description":"a < b & c > d"}`)
	}
	w.tools.definitions = []tool.Definition{d}
	w.tools.call = func(_ context.Context, c tool.Call) (tool.Result, error) {
		return tool.Result{Content: message.Blocks(message.Block{Type: message.BlockText, Text: strings.Repeat("<é>", 4000)}, message.Block{Type: message.BlockImage, MediaType: "image/png", Data: img})}, nil
	}
	for i := range 20 {
		w.model.replies = []reply{calls("add", "add"), says("ok <b> \u2028 &"), says("unused")}
		run := w.run(fmt.Sprint("u", i), "p")
		run.Config.Model.ContextWindow = 10_000_000
		run.Config.Model.Images = i%4 != 3
		run.Config.Model.ID = []string{"m", "n"}[i/3%2]
		run.Config.Context = fmt.Sprint("ctx", i/2)
		if i%3 == 0 {
			run.Config.Skills = []projection.SkillSelection{{ID: "s", Revision: "1", Name: "s<", Content: "do & <it>"}}
		}
		if i%2 == 0 {
			run.Prompt.Content = message.Blocks(message.Block{Type: message.BlockText, Text: strings.Repeat("long ", 3000)}, message.Block{Type: message.BlockImage, MediaType: "image/png", Data: img})
		}
		if got, err := w.execute(context.Background(), run); err != nil || got.Event != runevent.TypeRunFinished {
			t.Fatalf("%d: %+v %v", i, got, err)
		}
	}
	w.checkContexts(t)
}

// D: takeover with < in schema keeps the prefix and definitions byte-identical
func TestToolSchemaRoundTrip(t *testing.T) {
	d := defined("add")
	d.Parameters = []byte(`{"type":"object","description":"a < b & c > d"}`)
	raw, err := session.EncodeObject(session.ToolSet{V: 1, Tools: []tool.Definition{d}})
	if err != nil {
		t.Fatal(err)
	}
	back, err := session.DecodeObject[session.ToolSet](raw)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := d.Tool.AppendJSON(nil), back.Tools[0].Tool.AppendJSON(nil); !bytes.Equal(a, b) {
		t.Errorf("\n%s\n%s", a, b)
	}
}

// E: MaxAttempts after a completed / committed answer
func TestMaxAttempts(t *testing.T) {
	for _, point := range []string{"model.completed", "state.committed", "tool.result"} {
		t.Run(point, func(t *testing.T) {
			w := newWorld(t)
			if point == "tool.result" {
				w.tools.definitions = []tool.Definition{defined("add")}
				w.model.replies = []reply{calls("add")}
			} else {
				w.model.replies = []reply{says("hello")}
			}
			run := w.run("u1", "hi")
			run.Config.Limits.MaxAttempts = 1
			if _, died := w.runUntil(run, point, 1); !died {
				t.Fatal("not reached")
			}
			w.chaos = nil
			got, err := w.execute(context.Background(), run)
			_, h := w.state()
			t.Logf("%+v %v %v", got, err, roles(h))
			if len(h) < 2 {
				t.Errorf("the completed answer is not in the history")
			}
		})
	}
}

// F: takeover past the deadline with a completed answer
func TestDeadlineTakeover(t *testing.T) {
	w := newWorld(t)
	w.clock.now = time.Now().Add(-time.Hour)
	w.tools.definitions = []tool.Definition{defined("add")}
	w.model.replies = []reply{calls("add")}
	run := w.run("u1", "hi")
	if _, died := w.runUntil(run, "tool.result", 1); !died {
		t.Fatal("not reached")
	}
	w.chaos = nil
	run.Config.Limits.ActiveDeadlineSeconds = 60
	w.clock.now = time.Now()
	got, err := w.execute(context.Background(), run)
	_, h := w.state()
	t.Logf("%+v %v %v", got, err, roles(h))
	if len(h) != 3 {
		t.Errorf("completed answer and tool result lost")
	}
}

// G: concurrent results at cancel
func TestConcurrentCancel(t *testing.T) {
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("add", repeatable)}
	w.model.replies = []reply{calls("add", "add")}
	ctx, cancel := context.WithCancelCause(context.Background())
	first := make(chan struct{})
	w.tools.call = func(ctx context.Context, c tool.Call) (tool.Result, error) {
		if c.ID == "add-0" {
			cancel(ErrCancelled)
			defer time.AfterFunc(50*time.Millisecond, func() { close(first) })
			return tool.Result{}, ctx.Err()
		}
		<-first
		return tool.Result{Content: message.Text("I did it")}, nil
	}
	got, err := w.execute(ctx, w.run("u1", "hi"))
	_, h := w.state()
	t.Logf("%+v %v %v", got, err, roles(h))
	if h[3].PlainText() != "I did it" {
		t.Errorf("a result that arrived became %q", h[3].PlainText())
	}
}

// H: usage of a call cut short
func TestCutShortUsage(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	w.model.replies = []reply{func(ctx context.Context, _ provider.Request, _ func(provider.Delta)) (provider.Response, error) {
		cancel(ErrCancelled)
		return provider.Response{}, &provider.Error{Class: provider.ClassCancelled, Dispatched: true, Err: ctx.Err()}
	}}
	_, _ = w.execute(ctx, w.run("u1", "hi"))
	st, _ := w.state()
	if u := st.Usage(); u.RequestsWithoutUsage != 1 {
		t.Errorf("requests %d, usage %+v", st.Run.Requests, u)
	}
}

// I: guard refusal of a continuation keeps the map
func TestGuardRefusalMap(t *testing.T) {
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("add")}
	w.model.replies = []reply{calls("add")}
	n := 0
	w.model.body = func(r provider.Request) []byte {
		if n++; n == 2 {
			return []byte(`{"max_tokens":5000}`)
		}
		return []byte(`{"max_tokens":4096}`)
	}
	got, err := w.execute(context.Background(), w.run("u1", "hi"))
	st, _ := w.state()
	var first cas.Ref
	for _, e := range w.entries() {
		if e.Event.Kind == runevent.KindContextCaptured {
			first = *e.Event.Evidence.ContextRef
			break
		}
	}
	t.Logf("%+v %v", got, err)
	if st.Run.LastContext.Digest != first.Digest || st.Run.Requests != 1 {
		t.Errorf("map moved: requests %d; terminal record %v", st.Run.Requests, st.Run.Terminal.Record)
	}
}

// J: LoadState while another worker commits
type racingLog struct {
	runevent.Log
	between func()
}

func (r *racingLog) Last(ctx context.Context, s runevent.Stream) (runevent.Record, error) {
	rec, err := r.Log.Last(ctx, s)
	if b := r.between; b != nil {
		r.between = nil
		b()
	}
	return rec, err
}

func TestLoadRace(t *testing.T) {
	w := newWorld(t)
	w.model.replies = []reply{says("a"), says("b")}
	if _, err := w.execute(context.Background(), w.run("u1", "hi")); err != nil {
		t.Fatal(err)
	}
	r := &racingLog{Log: w.log, between: func() {
		if _, err := w.execute(context.Background(), w.run("u2", "hi")); err != nil {
			t.Fatal(err)
		}
	}}
	if _, err := LoadState(context.Background(), r, w.store, w.run("x", "").Stream()); err != nil {
		t.Errorf("load beside an appender: %v", err)
	}
}

// M: hand-backs are no attempts
func TestHandBacks(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		ctx, cancel := context.WithCancelCause(context.Background())
		w.model.replies = []reply{func(ctx context.Context, _ provider.Request, _ func(provider.Delta)) (provider.Response, error) {
			cancel(ErrHandBack)
			return provider.Response{}, &provider.Error{Class: provider.ClassCancelled, Dispatched: true, Err: ctx.Err()}
		}}
		got, err := w.execute(ctx, w.run("u1", "hi"))
		t.Logf("%d %+v %v", i, got, err)
		if !errors.Is(err, ErrHandBack) {
			t.Errorf("hand-back %d ended the run: %+v", i, got)
			break
		}
	}
}

// N: seal of an announced end
func TestSealAnnounced(t *testing.T) {
	w := newWorld(t)
	w.model.replies = []reply{fails(provider.ClassAuth)}
	if _, died := w.runUntil(w.run("u1", "hi"), "state.committed", 1); !died {
		t.Fatal()
	}
	w.chaos = nil
	got, err := Seal(context.Background(), w.deps(), w.run("u1", "hi"), ErrCancelled)
	t.Logf("%+v %v", got, err)
	if got.Reason != ReasonAuthFailed {
		t.Errorf("announced end replaced by %s", got.Reason)
	}
}

// O: refused, worker died, then executable
func TestRefusedThenExecuted(t *testing.T) {
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("add")}
	func() {
		defer func() { _ = recover() }()
		w.chaos = func(p string) {
			if p == "prompt.accepted" {
				panic(killed{p})
			}
		}
		_, _ = Seal(context.Background(), w.deps(), w.run("u1", "hi"), &Failure{Reason: "InvalidInput", Message: "x"})
	}()
	w.chaos = nil
	w.model.replies = []reply{says("ok")}
	got, err := w.execute(context.Background(), w.run("u1", "hi"))
	st, _ := w.state()
	t.Logf("%+v %v config %v", got, err, st.Run.Config)
	w.checkContexts(t)
}

// P: answer complete at the moment of a hand-back
func TestHandBackAfterAnswer(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	w.model.replies = []reply{says("hello")}
	w.chaos = func(p string) {
		if p == "model.answered" {
			cancel(ErrHandBack)
		}
	}
	_, err := w.execute(ctx, w.run("u1", "hi"))
	t.Log(err, w.events())
	ev := strings.Join(w.events(), " ")
	if !strings.Contains(ev, "model.completed") {
		t.Error("a complete answer was thrown away")
	}
}
