package scenarios

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agentloop/agentloop/pkg/runevent/natslog"
)

// cmdTool is "tool COMMAND ARGS": a subcommand of the manager for the script's namespace, with the world's stores.
func cmdTool(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: tool COMMAND ARGS")
	}
	command := shared.Tool(append([]string{args[0], "--namespace", ts.Getenv("NS")}, args[1:]...)...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	outcome(ts, neg, "manager "+strings.Join(args, " "), stdout.String(), stderr.String(), err)
}

// cmdStored is "stored UID [-until PATTERN]": how many messages and objects there are of a history, whatever they are; waits until
// that matches PATTERN.
func cmdStored(ts *testscript.TestScript, neg bool, args []string) {
	flags := flag.NewFlagSet("stored", flag.ContinueOnError)
	until := flags.String("until", "", "")
	rest := parse(ts, flags, args)
	if len(rest) != 1 || neg {
		ts.Fatalf("usage: stored UID [-until PATTERN]")
	}
	pattern, err := regexp.Compile(*until)
	ts.Check(err)
	var found string
	if !wait(time.Minute, func() bool { found = stored(ts, rest[0]); return pattern.MatchString(found) }) {
		ts.Fatalf("after a minute there are still %s", found)
	}
	emit(ts, "", []byte(found+"\n"))
}

// runEvents does something with the stream of run events.
func runEvents(ts *testscript.TestScript, do func(context.Context, jetstream.Stream)) {
	ts.Check(withJetStream(func(ctx context.Context, js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, natslog.DefaultStream)
		if err == nil {
			do(ctx, stream)
		}
		return err
	}))
}

func stored(ts *testscript.TestScript, uid string) string {
	messages := uint64(0)
	runEvents(ts, func(ctx context.Context, stream jetstream.Stream) {
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter("agentloop.*."+ts.Getenv("NS")+"."+uid+".>"))
		ts.Check(err)
		for _, n := range info.State.Subjects {
			messages += n
		}
	})
	objects, archives := 0, 0
	ts.Check(filepath.WalkDir(shared.StoreFolders()["s3"], func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && strings.Contains(path, uid) {
			objects++
			if strings.Contains(path, "/archive/") {
				archives++
			}
		}
		return err
	}))
	return fmt.Sprintf("%d messages, %d objects, %d of them archives", messages, objects, archives)
}

// cmdArchiving is "archiving on": restarts the manager with a bound on the stream of run events of which already so much is used that it
// archives by itself whatever it may; "archiving off" takes it back.
func cmdArchiving(ts *testscript.TestScript, _ bool, args []string) {
	const bound, above, interval = "--nats-max-bytes=", "--archive-above=", "--archive-interval="
	ts.Check(shared.Manager.Stop())
	shared.ManagerFlags = slices.DeleteFunc(shared.ManagerFlags, func(f string) bool {
		return strings.HasPrefix(f, bound) || strings.HasPrefix(f, above) || strings.HasPrefix(f, interval)
	})
	switch one(ts, "archiving", args) {
	case "on":
		runEvents(ts, func(_ context.Context, stream jetstream.Stream) {
			used := stream.CachedInfo().State.Bytes
			shared.ManagerFlags = append(shared.ManagerFlags, fmt.Sprintf("%s%d", bound, 2*used+1<<20), above+"1", interval+"200ms")
		})
	case "off":
	default:
		ts.Fatalf("usage: archiving on|off")
	}
	control(ts, shared.Manager, "start")
}

// cmdAged is "aged UID": makes all objects of a history three days older.
func cmdAged(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: aged UID")
	}
	then := time.Now().Add(-72 * time.Hour)
	ts.Check(filepath.WalkDir(shared.StoreFolders()["s3"], func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !strings.Contains(path, args[0]) {
			return err
		}
		return os.Chtimes(path, then, then) //nolint:gosec // nobody else has this folder
	}))
}

// cmdStores is "stores backup FOLDER", "stores wipe" and "stores restore FOLDER": what NATS and S3 have stored, while neither
// runs.
func cmdStores(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 || neg || shared.NATS.Running() || shared.S3.Running() {
		ts.Fatalf("usage: stores backup FOLDER | stores wipe | stores restore FOLDER, while nats and s3 are stopped")
	}
	for name, folder := range shared.StoreFolders() {
		switch {
		case args[0] == "backup" && len(args) == 2:
			ts.Check(os.MkdirAll(ts.MkAbs(args[1]), 0o755))
			copied(ts, folder, filepath.Join(ts.MkAbs(args[1]), name))
		case args[0] == "wipe":
			ts.Check(os.RemoveAll(folder))
		case args[0] == "restore" && len(args) == 2:
			ts.Check(os.RemoveAll(folder))
			copied(ts, filepath.Join(ts.MkAbs(args[1]), name), folder)
		default:
			ts.Fatalf("unknown: stores %v", args)
		}
	}
}

// copied copies a folder with everything that its files bear.
func copied(ts *testscript.TestScript, from, to string) {
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		ts.Fatalf("copy %s: %v: %s", from, err, out)
	}
}
