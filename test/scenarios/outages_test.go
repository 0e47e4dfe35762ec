package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/test/faultproxy"
	"github.com/agentloop/agentloop/test/services"
)

// outageVariable says how long an outage lasts: a multiple of the wait for a silent worker unless told otherwise.
const (
	outageVariable = "AGENTLOOP_OUTAGE"
	shortOutage    = 15 * time.Second
)

// cmdOutage is "outage": lets time pass while something is away. That is what is tested; nothing is waited for.
func cmdOutage(ts *testscript.TestScript, _ bool, _ []string) {
	length := shortOutage
	if text := os.Getenv(outageVariable); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		ts.Check(err)
	}
	<-time.After(length)
}

// cmdNATS is "nats start|stop|kill9|pause|resume", "nats save|restore NAME" and "nats wipe", which copy, put back and remove what
// a stopped server keeps, "nats disk SIZE|off|full|free", which has it keep that on a small disk of its own (root may), "nats fill|drain", which leave no room in its store and make some again, and "nats unlimited", which takes
// back from the next start on what fill has set.
func cmdNATS(ts *testscript.TestScript, _ bool, args []string) {
	store := shared.NATS.Store()
	switch {
	case len(args) == 2 && args[0] == "disk":
		disk(ts, args[1])
	case len(args) == 2 && args[0] == "save":
		ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(store)))
	case len(args) == 2 && args[0] == "restore":
		ts.Check(os.RemoveAll(store))
		ts.Check(os.CopyFS(store, os.DirFS(ts.MkAbs(args[1]))))
	case len(args) == 1 && args[0] == "wipe":
		ts.Check(os.RemoveAll(store))
	case len(args) == 1 && args[0] == "fill":
		ts.Check(fill(shared.NATS))
	case len(args) == 1 && args[0] == "unlimited":
		ts.Check(shared.NATS.Limit(0))
	case len(args) == 1 && args[0] == "drain":
		ts.Check(withJetStream(func(ctx context.Context, js jetstream.JetStream) error { return js.DeleteStream(ctx, fillStream) }))
	default:
		control(ts, shared.NATS, one(ts, "nats", args))
	}
}

// fillStream takes the room that nobody else shall have.
const fillStream = "FILL"

// fill restarts the server with a bound a little above what it keeps, and takes the rest.
func fill(server *services.NATS) error {
	if err := server.Stop(); err != nil {
		return err
	}
	var size int64
	err := filepath.WalkDir(server.Store(), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := server.Limit(size + 1<<20); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := server.Start(ctx); err != nil {
		return err
	}
	return withJetStream(func(ctx context.Context, js jetstream.JetStream) error {
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: fillStream, Subjects: []string{"fill"}}); err != nil {
			return err
		}
		for _, size := range []int{64 << 10, 1 << 10, 1} {
			for {
				_, err := js.Publish(ctx, "fill", make([]byte, size))
				var refused *jetstream.APIError
				if errors.As(err, &refused) {
					break
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func withJetStream(do func(context.Context, jetstream.JetStream) error) error {
	nc, err := natslog.Connect(natslog.ConnectOptions{URL: shared.NATS.URL, Name: "scenario"})
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return do(ctx, js)
}

// s3Codes are the error codes that S3 servers give with a status.
var s3Codes = map[int]string{403: "AccessDenied", 409: "ConditionalRequestConflict", 429: "TooManyRequests", 500: "InternalError", 503: "SlowDown"}

// otherSecret is what the account's secret is while its credential is lost.
const otherSecret = "not-what-anybody-was-told"

// cmdS3 is "s3 start|stop|kill9|down|up", "s3 credential lost|back", which restarts the server with another secret, "s3 fail STATUS [N]", which refuses the next N requests of manager and workers, all of them
// without N, and "s3 fault cut|hang|slow", which breaks every upload off, answers nothing, or everything late, until "s3 up".
func cmdS3(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: s3 start|stop|kill9|credential lost|back|fail STATUS [N]|fault cut|hang|slow|up")
	}
	switch args[0] {
	case "credential":
		own := shared.S3.SecretKey
		ts.Check(shared.S3.Stop())
		if args[len(args)-1] == "lost" {
			shared.S3.SecretKey = otherSecret
		}
		control(ts, shared.S3, "start")
		shared.S3.SecretKey = own // what everybody else has
	case "fail":
		rule := faultproxy.Rule{Name: "fail"}
		if len(args) == 3 {
			rule.Times = number(ts, args[2])
		}
		status := number(ts, args[1])
		code, known := s3Codes[status]
		if !known {
			ts.Fatalf("s3 fail %d: use one of %v", status, s3Codes)
		}
		rule.Fault = faultproxy.Refuse(status, code)
		shared.S3Faults.Script(rule)
	case "fault":
		rule, known := map[string]faultproxy.Rule{
			"cut":  {Name: "cut", Match: faultproxy.Method(http.MethodPut), Fault: faultproxy.CutUpload(7)},
			"hang": {Name: "hang", Fault: faultproxy.Hold(nil)},
			"slow": {Name: "slow", Fault: faultproxy.Late(300 * time.Millisecond)},
		}[args[len(args)-1]]
		if !known {
			ts.Fatalf("usage: s3 fault cut|hang|slow")
		}
		shared.S3Faults.Script(rule)
	default:
		if args[0] == "up" || args[0] == "start" {
			shared.S3Faults.Script()
		}
		control(ts, shared.S3, one(ts, "s3", args))
	}
}

// cmdAPIServer is "apiserver stop|start": takes the API server away from manager and workers; the script's own kubectl keeps it.
func cmdAPIServer(ts *testscript.TestScript, _ bool, args []string) {
	switch one(ts, "apiserver", args) {
	case "stop":
		ts.Check(shared.APIGate.Shut())
	case "start":
		ts.Check(shared.APIGate.Open())
	default:
		ts.Fatalf("usage: apiserver stop|start")
	}
}

// managerRoles are the flags of what "roles" restarts the manager with.
var managerRoles = map[string][]string{
	"all":                 nil,
	"controllers":         {"--role=controllers"},
	"elected-controllers": {"--role=controllers", "--leader-elect=true", "--leader-elect-namespace=agentloop-system"},
	"elected-all":         {"--role=all", "--leader-elect=true", "--leader-elect-namespace=agentloop-system"},
}

// cmdRoles is "roles controllers": restarts the manager without a worker, so that the script's own have all runs; "roles all" takes
// it back, and stops those. "roles elected-controllers|elected-all" restarts it so that its controllers need a Lease.
func cmdRoles(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(shared.Manager.Stop())
	role := one(ts, "roles", args)
	flags, known := managerRoles[role]
	if !known {
		ts.Fatalf("usage: roles controllers|all|elected-controllers|elected-all")
	}
	shared.ManagerFlags = slices.DeleteFunc(shared.ManagerFlags, func(f string) bool {
		return strings.HasPrefix(f, "--role=") || strings.HasPrefix(f, "--leader-elect")
	})
	shared.ManagerFlags = append(shared.ManagerFlags, flags...)
	if role == "all" {
		for id, process := range workers {
			ts.Check(process.Stop())
			delete(workers, id)
		}
	}
	control(ts, shared.Manager, "start")
}

// workers are those of serial scripts, by name.
var workers = map[string]*services.Process{}

// lost is when a worker was last killed or paused.
var lost time.Time

// cmdWorker is "worker NAME start|stop|kill9|pause|resume" and "worker NAME log TEXT", which waits until it has written TEXT in its log.
func cmdWorker(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: worker NAME start|stop|kill9|pause|resume|log TEXT")
	}
	id, action := ts.Getenv("NS")+"-"+args[0], args[1]
	process := workers[id]
	if process == nil && action == "start" {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		process, err := shared.StartWorker(ctx, id, "")
		ts.Check(err)
		workers[id] = process
		return
	}
	if process == nil {
		ts.Fatalf("there is no worker %s", args[0])
	}
	if action == "kill9" || action == "pause" {
		lost = time.Now()
	}
	if action != "log" {
		control(ts, process, action)
		return
	}
	written := func() bool {
		raw, err := os.ReadFile(process.LogPath())
		ts.Check(err)
		return strings.Contains(string(raw), args[2])
	}
	if !wait(time.Minute, written) {
		ts.Fatalf("worker %s has not written %q in its log after a minute", args[0], args[2])
	}
}

// cmdRecovered is "recovered SESSION LIMIT": the session's run was begun again by another worker at most so long after the last
// worker was killed or paused.
func cmdRecovered(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: recovered SESSION LIMIT")
	}
	limit, err := time.ParseDuration(args[1])
	ts.Check(err)
	var again time.Time
	for line := range strings.Lines(string(events(ts, sessionUID(ts, args[0])))) {
		var entry runevent.Entry
		ts.Check(json.Unmarshal([]byte(line), &entry))
		if entry.Event.Type == runevent.TypeRunStarted && entry.Event.Attempt > 1 && entry.CreatedAt.After(lost) {
			again = entry.CreatedAt
			break
		}
	}
	took := again.Sub(lost)
	if again.IsZero() || took > limit {
		ts.Fatalf("the run was begun again after %s (%s), at most %s is allowed", took, again, limit)
	}
	emit(ts, "", []byte(strconv.FormatFloat(took.Seconds(), 'f', 1, 64)+" s\n"))
	fmt.Fprintf(os.Stderr, "scenario: another worker went on %.1f s after the loss\n", took.Seconds())
}
