package chaos

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/agentloop/agentloop/test/stories"
	"github.com/agentloop/agentloop/test/world"
)

// ackWait is how long a dead worker keeps a run.
const ackWait = time.Second

// stage is a world with controllers that live throughout, and no worker.
var stage *stories.Stage

func TestMain(m *testing.M) {
	os.Exit(world.Suite{
		Name: "chaos", Target: "chaos", Run: m.Run,
		Ready: func(w *world.World) (err error) { stage, err = stories.Open(w); return err },
		Options: world.Options{ManagerFlags: []string{
			"--role=controllers", "--ack-wait=" + ackWait.String(), "--heartbeat=300ms", "--presence-ttl=1s", "--heads-interval=50ms", "--drain-timeout=1s",
		}},
	}.Main())
}

// points counts the points in a worker's log.
func points(t *testing.T, logPath string) map[string]int {
	t.Helper()
	file, err := os.Open(logPath)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := map[string]int{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Msg, Point string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "chaos point" {
			out[line.Point]++
		}
	}
	return out
}
