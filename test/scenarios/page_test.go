package scenarios

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdPage is "page SESSION": a browser opens the session's trajectory at the viewer, is asked for a token, gets the script's,
// and prints what it then shows as JSON.
func cmdPage(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: page SESSION")
	}
	if os.Getenv("CHROMIUM") == "" {
		ts.Fatalf("CHROMIUM is not set: run hack/test.sh scenarios, or set it to what hack/chromium.sh prints")
	}
	script, err := filepath.Abs(filepath.Join("..", "page", "browser", "real.mjs"))
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script)
	cmd.Env = append(os.Environ(), "PAGE_URL="+shared.ViewerURL, "PAGE_SESSION="+ts.Getenv("NS")+"/"+args[0], "PAGE_TOKEN="+ts.Getenv("TOKEN"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		ts.Fatalf("the page of %s: %v\n%s", args[0], err, stderr.Bytes())
	}
	emit(ts, "", out)
}
