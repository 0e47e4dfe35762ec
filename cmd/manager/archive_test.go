package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// TestArchiveCommand archives a session on real servers, twice, and checks it afterwards.
func TestArchiveCommand(t *testing.T) {
	w := storedStory(t)
	run := func(flags ...string) archive.Result {
		t.Helper()
		var out, log bytes.Buffer
		args := append([]string{"--namespace", story.Namespace, "--session", story.Session}, w.flags...)
		if err := archiveCommand(t.Context(), append(args, flags...), &out, &log); err != nil {
			t.Fatal(err)
		}
		var result archive.Result
		if err := json.Unmarshal(out.Bytes(), &result); err != nil {
			t.Fatal(err)
		}
		return result
	}
	if got := run(); len(got.Files) != 2 || got.Entries == 0 || got.Removed != 0 {
		t.Errorf("without --remove: %+v", got)
	}
	if got := run("--remove"); len(got.Files) != 0 || got.Removed == 0 {
		t.Errorf("with --remove: %+v", got)
	}
	if got := run("--remove"); len(got.Files) != 0 || got.Removed != 0 {
		t.Errorf("a second time: %+v", got)
	}
	codes, code, text := w.verified(t.Context(), t, story.Session)
	if code != 0 || len(codes) != 1 || !strings.Contains(text, `"archives":2`) {
		t.Errorf("verify: exit code %d\n%s", code, text)
	}
	used, limit, err := w.log.Fill(t.Context())
	if err != nil || used == 0 || limit != 0 {
		t.Errorf("the log has %d of %d bytes, %v", used, limit, err)
	}
}

func TestArchiveCommandSaysWhatItNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no session":       {[]string{"--namespace", "team"}, "--session"},
		"another argument": {[]string{"--namespace", "team", "--session", story.Session, "x"}, `"x"`},
		"no store":         {[]string{"--namespace", "team", "--session", story.Session}, "--s3-endpoint"},
		"another store":    {[]string{"--namespace", "team", "--session", story.Session, "--store", "tape"}, "tape"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var out, log bytes.Buffer
			if err := archiveCommand(ctx, c.args, &out, &log); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want something about %s", err, c.want)
			}
		})
	}
}

// TestArchiveFlags holds the policy's flags to what they can be.
func TestArchiveFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"": "", "--archive-above=0": "", "--archive-above=100 --archive-interval=10s": "", "--archive-above=-1": "--archive-above", "--archive-above=101": "--archive-above",
		"--archive-interval=0s": "--archive-interval",
	} {
		_, err := parse(strings.Fields(flags))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something about %q", flags, err, want)
		}
	}
}
