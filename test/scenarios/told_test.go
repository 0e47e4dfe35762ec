package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdTold is "told KIND/NAME REASON...": waits until the Events of an object have all of these reasons, and prints each Event as its
// type, reason and note.
func cmdTold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: told KIND/NAME REASON...")
	}
	var lines []string
	ok := wait(time.Minute, func() bool {
		raw, err := shared.Kubectl(context.Background(), "--namespace", ts.Getenv("NS"), "events", "--for", args[0], "-o", "json").Output()
		var list struct {
			Items []struct{ Type, Reason, Message string }
		}
		if err != nil || json.Unmarshal(raw, &list) != nil {
			return false
		}
		lines = nil
		missing := slices.Clone(args[1:])
		for _, event := range list.Items {
			lines = append(lines, fmt.Sprintf("%s %s %s", event.Type, event.Reason, event.Message))
			missing = slices.DeleteFunc(missing, func(reason string) bool { return reason == event.Reason })
		}
		return len(missing) == 0
	})
	if !ok {
		ts.Fatalf("%s: no Events of all of %v after a minute:\n%s", args[0], args[1:], strings.Join(lines, "\n"))
	}
	_, _ = io.WriteString(ts.Stdout(), strings.Join(lines, "\n")+"\n")
}

// cmdMetrics is "metrics": prints the manager's own metrics.
func cmdMetrics(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: metrics")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, shared.MetricsURL, http.NoBody)
	ts.Check(err)
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	ts.Check(err)
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "agentloop_") {
			_, _ = io.WriteString(ts.Stdout(), line)
		}
	}
}
