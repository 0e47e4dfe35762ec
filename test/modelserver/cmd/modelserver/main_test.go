package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// await returns the content of a file that appears.
func await(t *testing.T, path string, failed <-chan error) string {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if raw, err := os.ReadFile(path); err == nil {
			return strings.TrimSpace(string(raw))
		}
		select {
		case err := <-failed:
			t.Fatalf("the command ended: %v", err)
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatal("no address")
		}
	}
}

func TestRunServesScriptsUntilStopped(t *testing.T) {
	one := write(t, "one.yaml", "model: a\nreplies: [{repeat: true}]")
	two := write(t, "two.yaml", "model: b\nreplies: [{hang: true}]")
	address := filepath.Join(t.TempDir(), "address")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var out bytes.Buffer
	go func() {
		ended <- run(ctx, []string{"--script", one, "--script", two, "--prefix", "ns", "--print-address-file", address}, &out, io.Discard)
	}()
	url := await(t, address, ended)
	res, err := http.Get(url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	for _, id := range []string{`"ns-a"`, `"ns-b"`} {
		if !strings.Contains(string(body), id) {
			t.Errorf("no model %s: %s", id, body)
		}
	}
	hanging := make(chan struct{})
	go func() {
		defer close(hanging)
		res, err := http.Post(url+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model":"ns-b","messages":[{"role":"user","content":"do not print this"}]}`))
		if err == nil { // else the server was stopped before it heard the request
			_ = res.Body.Close()
		}
	}()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	<-hanging
	if got, want := out.String(), "modelserver serves on "+url+"\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestRunRefuses(t *testing.T) {
	bad := write(t, "bad.yaml", "model: a\nreply: []")
	cases := map[string]struct {
		args []string
		want string
	}{
		"an unknown flag":      {[]string{"--scripts", "x"}, "flag provided but not defined: -scripts"},
		"an argument":          {[]string{"x.yaml"}, `unexpected argument "x.yaml"; scripts are given with --script`},
		"a missing script":     {[]string{"--script", "/nonexistent/x.yaml"}, "no such file"},
		"a bad script":         {[]string{"--script", bad}, `unknown field "reply"`},
		"a bad address":        {[]string{"--listen", "nowhere:x"}, "listen tcp"},
		"no place for its URL": {[]string{"--print-address-file", "/nonexistent/x"}, "no such file"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), tc.args, io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var errs bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, io.Discard, &errs); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"/_scripts?prefix=P", "-print-address-file", "-listen", "modelscript.md"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("--help does not mention %s", want)
		}
	}
}
