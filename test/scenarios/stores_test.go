package scenarios

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
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

// cmdStored is "stored UID": how many messages and objects there are of a history, whatever they are.
func cmdStored(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: stored UID")
	}
	nc, err := nats.Connect(shared.NATS.URL)
	ts.Check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, natslog.DefaultStream)
	ts.Check(err)
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter("agentloop.*."+ts.Getenv("NS")+"."+args[0]+".>"))
	ts.Check(err)
	messages := uint64(0)
	for _, n := range info.State.Subjects {
		messages += n
	}
	objects, archives := 0, 0
	ts.Check(filepath.WalkDir(shared.StoreFolders()["s3"], func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && strings.Contains(path, args[0]) {
			objects++
			if strings.Contains(path, "/archive/") {
				archives++
			}
		}
		return err
	}))
	emit(ts, "", fmt.Appendf(nil, "%d messages, %d objects, %d of them archives\n", messages, objects, archives))
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
