package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// measurePage opens the viewer's page in a headless Chromium and measures what it costs the page's main thread.
func measurePage(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	if os.Getenv("CHROMIUM") == "" {
		return nil, errors.New("CHROMIUM is not set: run BENCH=page hack/bench.sh, or set it to what hack/chromium.sh prints")
	}
	cmd := exec.CommandContext(ctx, "node", filepath.Join(c.load.root, "test", "page", "browser", "figures.mjs"))
	cmd.Env = append(os.Environ(), fmt.Sprintf("PAGE_ROUNDS=%d", c.count))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	for line := range strings.Lines(stderr.String()) {
		say("%s", strings.TrimSpace(line))
	}
	if err != nil {
		return nil, fmt.Errorf("node, which hack/web.sh needs as well: %w", err)
	}
	return pageFigures(out)
}

// pageFigures reads what the measuring script printed.
func pageFigures(out []byte) ([]Figure, error) {
	var printed struct {
		Figures []struct {
			Name    string    `json:"name"`
			Unit    string    `json:"unit"`
			Samples []float64 `json:"samples"`
			AtMost  *float64  `json:"atMost"`
		} `json:"figures"`
	}
	if err := json.Unmarshal(out, &printed); err != nil {
		return nil, fmt.Errorf("read the figures: %w", err)
	}
	if len(printed.Figures) == 0 {
		return nil, errors.New("the script printed no figures")
	}
	var figures []Figure
	for _, p := range printed.Figures {
		if len(p.Samples) == 0 {
			return nil, fmt.Errorf("figure %q has no samples", p.Name)
		}
		f := figure("page", p.Name, p.Unit, p.Samples...)
		if p.AtMost != nil {
			f = f.atMost(*p.AtMost)
		}
		figures = append(figures, f)
	}
	return figures, nil
}
