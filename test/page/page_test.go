package page

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/agentloop/agentloop/test/page/fixture"
	"github.com/agentloop/agentloop/web"
)

// line is what the checks print: one for each of them, and last how many there were.
type line struct {
	Name         string `json:"name"`
	Error        string `json:"error"`
	Milliseconds int    `json:"milliseconds"`
	Done         *int   `json:"done"`
}

// TestPage runs the checks in browser/ against the real server. PAGE_ONLY picks checks whose names match it, and
// PAGE_SHOTS names a folder for pictures of the page.
func TestPage(t *testing.T) {
	if os.Getenv("CHROMIUM") == "" {
		t.Fatal("CHROMIUM is not set: run hack/test.sh page, or set it to what hack/chromium.sh prints")
	}
	f, err := fixture.New(web.Dist(), slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError + 1})))
	if err != nil {
		t.Fatalf("record the sessions: %v", err)
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	control := httptest.NewServer(controls(f))
	t.Cleanup(control.Close)
	sources, err := filepath.Abs("../../web")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "browser/checks.mjs")
	cmd.Env = append(os.Environ(), "PAGE_URL="+server.URL, "PAGE_CONTROL="+control.URL, "PAGE_WEB="+sources,
		"PAGE_READER="+fixture.Reader, "PAGE_ADMIN="+fixture.Admin)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start node, which hack/web.sh needs as well: %v", err)
	}
	if checked := report(t, out); checked == 0 {
		t.Error("no check was run")
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("checks: %v", err)
	}
}

// report turns lines into subtests as they are printed, and returns how many checks came to an end.
func report(t *testing.T, out io.Reader) int {
	t.Helper()
	checked, done := 0, -1
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			t.Errorf("not a report: %s", scanner.Text())
			continue
		}
		if l.Done != nil {
			done = *l.Done
			continue
		}
		checked++
		t.Run(l.Name, func(t *testing.T) {
			t.Logf("%d ms", l.Milliseconds)
			if l.Error != "" {
				t.Error(l.Error)
			}
		})
	}
	if done != checked {
		t.Errorf("%d checks reported, %d done: the rest did not come to an end", checked, done)
	}
	return checked
}

// controls lets the checks change what the server has.
func controls(f *fixture.Fixture) http.Handler {
	mux := http.NewServeMux()
	recording := func(record func() error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if err := record(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		}
	}
	mux.HandleFunc("POST /continue", recording(f.Continue))
	mux.HandleFunc("POST /approve", recording(f.Approve))
	busy := func(busy bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			f.SetBusy(busy)
			w.WriteHeader(http.StatusNoContent)
		}
	}
	mux.HandleFunc("POST /busy", busy(true))
	mux.HandleFunc("POST /well", busy(false))
	return mux
}
