package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/agentloop/agentloop/pkg/trajectory/verify"
)

func compressed(t *testing.T, kind string, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch kind {
	case "gzip":
		w := gzip.NewWriter(&out)
		_, _ = w.Write(plain)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	case "zstd":
		w, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(plain)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	default:
		return plain
	}
	return out.Bytes()
}

// TestVerify checks files as people have them on their disks.
func TestVerify(t *testing.T) {
	whole, err := os.ReadFile("../../pkg/trajectory/testdata/export.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	write := func(t *testing.T, data []byte) string {
		path := filepath.Join(t.TempDir(), "export")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, kind := range []string{"plain", "gzip", "zstd"} {
		packed := compressed(t, kind, whole)
		t.Run(kind, func(t *testing.T) {
			var out, log bytes.Buffer
			if err := verifyCommand(t.Context(), []string{"--export", write(t, packed)}, nil, &out, &log); err != nil || !strings.HasPrefix(out.String(), "complete: session team:sample") {
				t.Errorf("%v: %s", err, out.String())
			}
			if err := verifyCommand(t.Context(), []string{"--export", "-"}, bytes.NewReader(packed), &out, &log); err != nil {
				t.Errorf("standard input: %v", err)
			}
			out.Reset()
			var unverified *unverifiedError
			err := verifyCommand(t.Context(), []string{"--export", write(t, packed[:len(packed)-9]), "-o", "json"}, nil, &out, &log)
			if !errors.As(err, &unverified) || unverified.code != exitWrong || unverified.cause != nil {
				t.Errorf("cut off: %v", err)
			}
			var report verify.Report
			if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Complete || len(report.Problems) == 0 {
				t.Errorf("cut off: %v: %s", err, out.String())
			}
			if log.Len() > 0 {
				t.Errorf("progress of a small file: %s", log.String())
			}
		})
	}
	t.Run("an edited file", func(t *testing.T) {
		var out, log bytes.Buffer
		edited := bytes.Replace(whole, []byte("It is 42."), []byte("It is 41."), 1)
		err := verifyCommand(t.Context(), []string{"--export", write(t, edited)}, nil, &out, &log)
		if err == nil || !strings.Contains(out.String(), "NOT COMPLETE") || !strings.Contains(out.String(), "wrongChecksum") || !strings.Contains(out.String(), "do not rely on it") {
			t.Errorf("%v: %s", err, out.String())
		}
	})
}

// TestVerifyCannotRead says what it needs, with another exit code than for a file that is wrong.
func TestVerifyCannotRead(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"no file":          {nil, "--export"},
		"a missing file":   {[]string{"--export", filepath.Join(t.TempDir(), "none")}, "no such file"},
		"another argument": {[]string{"--export", "-", "x"}, `"x"`},
		"another format":   {[]string{"--export", "-", "-o", "yaml"}, "yaml"},
		"another flag":     {[]string{"--import", "x"}, "import"},
		"a broken disk":    {[]string{"--export", "-"}, "broken disk"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, log bytes.Buffer
			err := verifyCommand(t.Context(), c.args, iotest.ErrReader(errors.New("broken disk")), &out, &log)
			var unverified *unverifiedError
			if !errors.As(err, &unverified) || unverified.code != exitUnreadable || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %s", err, c.want)
			}
		})
	}
}
