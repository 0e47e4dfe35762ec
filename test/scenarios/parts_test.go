package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/itchyny/gojq"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/pkg/trajectory/verify"
)

func number(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}

// cmdEvents is "events SESSION [-uid] [-o FILE]": the session's run-event streams, JSON lines, verified on the way. With
// -uid the session is named by its UID and need not exist any more; the UID of the last one is in $SESSION_UID.
func cmdEvents(ts *testscript.TestScript, neg bool, args []string) {
	flags := flag.NewFlagSet("events", flag.ContinueOnError)
	file := flags.String("o", "", "")
	byUID := flags.Bool("uid", false, "")
	rest := parse(ts, flags, args)
	if len(rest) != 1 || neg {
		ts.Fatalf("usage: events SESSION [-uid] [-o FILE]")
	}
	uid := rest[0]
	if !*byUID {
		uid = sessionUID(ts, rest[0])
	}
	ts.Setenv("SESSION_UID", uid)
	emit(ts, *file, events(ts, uid))
}

func sessionUID(ts *testscript.TestScript, name string) string {
	_, raw := get(ts, "agentsession", name)
	var session struct {
		Metadata struct{ UID string }
	}
	ts.Check(json.Unmarshal([]byte(raw), &session))
	return session.Metadata.UID
}

// events are the entries of all streams of a session, a line each.
func events(ts *testscript.TestScript, uid string) []byte {
	nc, err := natslog.Connect(natslog.ConnectOptions{URL: shared.NATS.URL, Name: "scenario"})
	ts.Check(err)
	defer nc.Close()
	log, err := natslog.New(nc, natslog.Options{})
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	streams, err := log.Streams(ctx, ts.Getenv("NS"), uid)
	ts.Check(err)
	var out bytes.Buffer
	for _, last := range streams {
		previous := runevent.Head{}
		ts.Check(log.Read(ctx, last.Stream, 0, func(record runevent.Record) error {
			if err := runevent.Verify(previous, record); err != nil {
				return err
			}
			previous = record.Head
			out.Write(record.Raw)
			return out.WriteByte('\n')
		}))
	}
	return out.Bytes()
}

// cmdWaitEvents is "waitevents SESSION EXPR": waits until the jq expression gives true for some entry of the session.
func cmdWaitEvents(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 || neg {
		ts.Fatalf("usage: waitevents SESSION EXPR")
	}
	query, err := gojq.Parse(args[1])
	ts.Check(err)
	uid := sessionUID(ts, args[0])
	var raw []byte
	found := wait(time.Minute, func() bool {
		raw = events(ts, uid)
		for line := range bytes.Lines(raw) {
			var entry any
			ts.Check(json.Unmarshal(line, &entry))
			if result, more := query.Run(entry).Next(); more && result == true {
				return true
			}
		}
		return false
	})
	if !found {
		ts.Fatalf("%s is true for no entry of %s after a minute:\n%s", args[1], args[0], raw)
	}
}

// cmdVerify is "verify FILE": checks an export of a trajectory.
func cmdVerify(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: verify FILE")
	}
	report, err := verify.Export(strings.NewReader(ts.ReadFile(args[0])), nil)
	ts.Check(err)
	raw, err := json.Marshal(report)
	ts.Check(err)
	if report.Complete == neg {
		ts.Fatalf("complete %v: %s", report.Complete, raw)
	}
	emit(ts, "", append(raw, '\n'))
}

type part interface {
	Start(context.Context) error
	Stop() error
	Kill() error
	Pause() error
	Resume() error
}

func control(ts *testscript.TestScript, p part, action string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch action {
	case "start", "up":
		ts.Check(p.Start(ctx))
	case "stop", "down":
		ts.Check(p.Stop())
	case "kill9":
		ts.Check(p.Kill())
	case "pause":
		ts.Check(p.Pause())
	case "resume":
		ts.Check(p.Resume())
	default:
		ts.Fatalf("unknown action %q: use start, stop, kill9, pause or resume", action)
	}
}

func one(ts *testscript.TestScript, name string, args []string) string {
	if len(args) != 1 {
		ts.Fatalf("usage: %s start|stop|kill9|pause|resume", name)
	}
	return args[0]
}

func cmdManager(ts *testscript.TestScript, _ bool, args []string) {
	action := one(ts, "manager", args)
	if action != "ended" {
		control(ts, shared.Manager, action)
		return
	}
	if !wait(time.Minute, func() bool { return !shared.Manager.Running() }) {
		ts.Fatalf("the manager has not ended by itself after a minute")
	}
}

// cmdChaos is "chaos POINT[=N]": restarts the manager so that it dies by itself at the point; "chaos died" waits for that, and "chaos
// off" takes it back.
func cmdChaos(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: chaos POINT[=N] | chaos died | chaos off")
	}
	if args[0] == "died" {
		if !wait(time.Minute, func() bool { return !shared.Manager.Running() }) {
			ts.Fatalf("the manager has not died at %s after a minute", shared.Chaos)
		}
		return
	}
	ts.Check(shared.Manager.Stop())
	shared.Chaos = args[0]
	if args[0] == "off" {
		shared.Chaos = ""
	}
	control(ts, shared.Manager, "start")
}

// cmdSlots is "slots N": restarts the manager with a worker that executes N runs at a time; "slots off" takes it back.
func cmdSlots(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: slots N | slots off")
	}
	ts.Check(shared.Manager.Stop())
	const flag = "--max-concurrent-runs="
	shared.ManagerFlags = slices.DeleteFunc(shared.ManagerFlags, func(f string) bool { return strings.HasPrefix(f, flag) })
	if args[0] != "off" {
		shared.ManagerFlags = append(shared.ManagerFlags, flag+args[0])
	}
	control(ts, shared.Manager, "start")
}

// cmdEffects is "effects KEY": what the effectful tool has done under that key, a line each.
func cmdEffects(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: effects KEY")
	}
	for _, effect := range effects(args[0]) {
		_, _ = ts.Stdout().Write([]byte(effect + "\n"))
	}
}

func effects(key string) []string {
	var out []string
	for _, e := range shared.Tools.Effects(key) {
		out = append(out, e.Tool+" "+e.Text)
	}
	return out
}

// cmdWaitEffects is "waiteffects KEY": waits until a waiting tool was called with that key.
func cmdWaitEffects(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: waiteffects KEY")
	}
	if !wait(time.Minute, func() bool { return shared.Tools.Started(args[0]) > 0 }) {
		ts.Fatalf("no tool was called with key %s", args[0])
	}
}

// cmdRelease is "release KEY": lets the waiting tool calls with that key end.
func cmdRelease(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: release KEY")
	}
	shared.Tools.Release(args[0])
}

// cmdWaitFor is "waitfor KIND NAME EXPR [-timeout 60s]": waits until the jq expression gives true for the object.
func cmdWaitFor(ts *testscript.TestScript, _ bool, args []string) {
	flags := flag.NewFlagSet("waitfor", flag.ContinueOnError)
	limit := flags.Duration("timeout", time.Minute, "")
	rest := parse(ts, flags, args)
	if len(rest) != 3 {
		ts.Fatalf("usage: waitfor KIND NAME EXPR [-timeout 60s]")
	}
	query, err := gojq.Parse(rest[2])
	ts.Check(err)
	var raw string
	ok := wait(*limit, func() bool {
		_, raw = get(ts, rest[0], rest[1])
		var object any
		if raw == "" || json.Unmarshal([]byte(raw), &object) != nil {
			return false
		}
		result, more := query.Run(object).Next()
		return more && result == true
	})
	if !ok {
		ts.Fatalf("%s %s: %s is not true after %s:\n%s", rest[0], rest[1], rest[2], *limit, raw)
	}
}
