package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/s3store"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/test/services"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// stored is a session on real servers, and the flags that lead there.
type stored struct {
	nc    *nats.Conn
	log   *natslog.Log
	store *s3store.Store
	s3    *services.S3
	flags []string
}

// storedStory copies a session to a NATS and an S3 server of its own.
func storedStory(t *testing.T) *stored {
	t.Helper()
	n, s3 := services.NATSForTest(t), services.S3ForTest(t)
	t.Setenv("AWS_ACCESS_KEY_ID", s3.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3.SecretKey)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w := &stored{s3: s3, flags: []string{
		"--nats-url", n.URL, "--s3-endpoint", s3.Endpoint, "--s3-region", s3.Region, "--s3-bucket", s3.Bucket,
	}}
	var err error
	w.nc, err = nats.Connect(n.URL)
	must(err)
	t.Cleanup(w.nc.Close)
	w.log, err = natslog.New(w.nc, natslog.Options{})
	must(err)
	must(w.log.Ensure(t.Context()))
	w.store, err = s3store.New(s3store.Options{Endpoint: s3.Endpoint, Region: s3.Region, Bucket: s3.Bucket, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey})
	must(err)
	t.Cleanup(w.store.Close)
	s, err := story.Sample(t.Context())
	must(err)
	must(s.Store.List(t.Context(), s.Scope(), func(ref cas.Ref) error {
		data, err := s.Store.Get(t.Context(), s.Scope(), cas.Ref{Digest: ref.Digest})
		if err == nil {
			_, err = w.store.Put(t.Context(), s.Scope(), cas.MediaBlob, data)
		}
		return err
	}))
	var head runevent.Head
	must(s.Log.Read(t.Context(), story.Stream(runevent.MainAgent), 0, func(r runevent.Record) error {
		var err error
		head, err = w.log.Append(t.Context(), r.Stream, head, r.Raw)
		return err
	}))
	return w
}

// verified runs the command and returns the codes of its lines and its exit code.
func (w *stored) verified(ctx context.Context, t *testing.T, session string) ([]string, int, string) {
	t.Helper()
	var out, log bytes.Buffer
	args := append([]string{"--namespace", story.Namespace, "--session", session}, w.flags...)
	err := verifyCommand(ctx, args, nil, &out, &log)
	code := 0
	var unverified *unverifiedError
	if errors.As(err, &unverified) {
		code = unverified.code
	}
	if err != nil && code == 0 {
		t.Fatal(err)
	}
	var codes []string
	for line := range strings.Lines(out.String()) {
		var one struct {
			Type     string `json:"type"`
			Code     string `json:"code"`
			Complete bool   `json:"complete"`
			Message  string `json:"message"`
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Type == "problem" && one.Message == "" {
			t.Fatalf("line %q: %v", line, err)
		}
		if one.Type == "summary" {
			one.Code = map[bool]string{true: "complete", false: "incomplete"}[one.Complete]
		}
		codes = append(codes, one.Code)
	}
	text := out.String()
	if err != nil {
		text += err.Error()
	}
	for _, content := range []string{"40 + 2", "careful assistant", "hunter2", "You are welcome"} {
		if strings.Contains(text+log.String(), content) {
			t.Errorf("contents are shown: %q", content)
		}
	}
	return codes, code, text
}

func TestVerifySession(t *testing.T) {
	w := storedStory(t)
	ctx := t.Context()
	expect := func(what string, wantCode int, want ...string) {
		t.Helper()
		codes, code, text := w.verified(ctx, t, story.Session)
		if diff := cmp.Diff(want, slices.Compact(codes)); diff != "" || code != wantCode {
			t.Errorf("%s: exit code %d, want %d; lines (-want +got):\n%s\n%s", what, code, wantCode, diff, text)
		}
	}
	expect("nothing is wrong", 0, "complete")

	bucket, err := minio.New(w.s3.Host, &minio.Options{Creds: credentials.NewStaticV4(w.s3.AccessKey, w.s3.SecretKey, ""), Region: w.s3.Region})
	if err != nil {
		t.Fatal(err)
	}
	var first cas.Digest
	scope := cas.Scope{Namespace: story.Namespace, Session: story.Session}
	if err := w.store.List(ctx, scope, func(ref cas.Ref) error { first = ref.Digest; return nil }); err != nil {
		t.Fatal(err)
	}
	kept, err := w.store.Get(ctx, scope, cas.Ref{Digest: first})
	if err != nil {
		t.Fatal(err)
	}
	key, err := cas.Key(scope, first)
	if err != nil {
		t.Fatal(err)
	}
	damage := []byte("no envelope")
	if _, err := bucket.PutObject(ctx, w.s3.Bucket, key, bytes.NewReader(damage), int64(len(damage)), minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("an object was overwritten", exitWrong, "corruptObject", "incomplete")
	if err := bucket.RemoveObject(ctx, w.s3.Bucket, key, minio.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("an object is gone", exitWrong, "missingObject", "incomplete")
	if _, err := w.store.Put(ctx, scope, cas.MediaBlob, kept); err != nil {
		t.Fatal(err)
	}
	expect("it is back", 0, "complete")

	js, err := jetstream.New(w.nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, natslog.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(5)); err != nil {
		t.Fatal(err)
	}
	expect("the first entries are gone", exitWrong, "missingEntries", "incomplete")
}

// TestVerifySessionThatCannotBeRead wants no verdict about what could not be read.
func TestVerifySessionThatCannotBeRead(t *testing.T) {
	w := storedStory(t)
	for name, c := range map[string]struct {
		session string
		flags   []string
		says    string
	}{
		"a history that nobody knows":     {"11111111-2222-4333-8444-555555555555", nil, "the log knows no events"},
		"no Kubernetes to look a name up": {"release-notes", nil, "give the UID of its history"},
		"a store that denies access":      {story.Session, []string{"--s3-bucket", "another-bucket"}, "another-bucket"},
		"a server that is not there":      {story.Session, []string{"--nats-url", "nats://127.0.0.1:1", "--timeout", "2s"}, "--nats-url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", "/nonexistent")
			one := *w
			one.flags = append(slices.Clone(w.flags), c.flags...)
			codes, code, text := one.verified(t.Context(), t, c.session)
			if len(codes) > 0 || code != exitUnreadable || !strings.Contains(text, c.says) {
				t.Errorf("exit code %d, lines %v, want %d and %q:\n%s", code, codes, exitUnreadable, c.says, text)
			}
		})
	}
}
