package services_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/test/services"
)

func jetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestNATSKeepsAckedMessagesOverKillAndStop(t *testing.T) {
	n := services.NATSForTest(t)
	ctx := t.Context()
	js := jetStream(t, n.URL)
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Storage: jetstream.FileStorage}); err != nil {
		t.Fatal(err)
	}
	ends := map[string]func() error{"killed": n.Kill, "stopped": n.Stop}
	want := uint64(0)
	for name, end := range ends {
		if _, err := jetStream(t, n.URL).Publish(ctx, "s.a", []byte("x")); err != nil {
			t.Fatal(err)
		}
		want++
		pid := n.PID()
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n.Running() || n.PID() != 0 {
			t.Fatalf("%s: still running", name)
		}
		if err := n.Start(ctx); err != nil {
			t.Fatalf("start after %s: %v", name, err)
		}
		if n.PID() == pid {
			t.Fatalf("%s: the same process is still there", name)
		}
		stream, err := jetStream(t, n.URL).Stream(ctx, "S")
		if err != nil {
			t.Fatal(err)
		}
		if got := stream.CachedInfo().State.Msgs; got != want {
			t.Errorf("%s: %d messages, want %d", name, got, want)
		}
	}
}

func TestS3KeepsObjectsOverKill(t *testing.T) {
	s := services.S3ForTest(t)
	ctx := t.Context()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := minio.New(s.Host, &minio.Options{
		Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Region: s.Region, Transport: transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte("0123456789"), 1000)
	if _, err := client.PutObject(ctx, s.Bucket, "a/b", bytes.NewReader(body), int64(len(body)), minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	object, err := client.GetObject(ctx, s.Bucket, "a/b", minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	got, err := io.ReadAll(object)
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("read %d bytes after the restart, error %v; want the %d bytes that were put", len(got), err, len(body))
	}
	overwrite := minio.PutObjectOptions{}
	overwrite.SetMatchETagExcept("*")
	_, err = client.PutObject(ctx, s.Bucket, "a/b", strings.NewReader("other"), 5, overwrite)
	if got := minio.ToErrorResponse(err).StatusCode; got != http.StatusPreconditionFailed {
		t.Errorf("conditional put of a key that exists: status %d (%v), want 412", got, err)
	}
}

func TestFailuresSayWhatToDo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cases := map[string]struct {
		start func() error
		want  string
	}{
		"no programs for NATS": {func() error {
			_, err := services.StartNATS(ctx, services.NATSOptions{Programs: t.TempDir(), Dir: t.TempDir()})
			return err
		}, "make services"},
		"no programs for S3": {func() error {
			_, err := services.StartS3(ctx, services.S3Options{Programs: t.TempDir(), Dir: t.TempDir()})
			return err
		}, "make services"},
		"a bucket name that S3 refuses": {func() error {
			_, err := services.StartS3(ctx, services.S3Options{Programs: services.Folder(t), Dir: t.TempDir(), Bucket: "No"})
			return err
		}, "InvalidBucketName"},
		"a configuration that NATS refuses": {func() error {
			_, err := services.StartNATS(ctx, services.NATSOptions{Programs: services.Folder(t), Dir: t.TempDir(), SyncInterval: "never"})
			return err
		}, "sync_interval"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := tc.start()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestLogsAreKept(t *testing.T) {
	n := services.NATSForTest(t)
	raw, err := os.ReadFile(n.LogPath())
	if err != nil || !bytes.Contains(raw, []byte("Server is ready")) {
		t.Errorf("log %s has no start line (%v)", n.LogPath(), err)
	}
}

func TestGate(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	gate, err := services.OpenGate(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Shut() })
	for range 2 {
		conn, err := net.Dial("tcp", gate.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		echo := make([]byte, 5)
		if _, err := io.ReadFull(conn, echo); err != nil || string(echo) != "hello" {
			t.Fatalf("through the open gate: %q, %v", echo, err)
		}
		if err := gate.Shut(); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(echo); err == nil {
			t.Errorf("%d bytes through the shut gate", n)
		}
		if other, err := net.Dial("tcp", gate.Address()); err == nil {
			_ = other.Close()
			t.Error("the shut gate was entered")
		}
		if err := gate.Open(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNATSPausesAndHasLimits(t *testing.T) {
	n := services.NATSForTest(t)
	js := jetStream(t, n.URL)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Storage: jetstream.FileStorage}); err != nil {
		t.Fatal(err)
	}
	if err := n.Pause(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := js.Publish(short, "s.a", []byte("x")); err == nil {
		t.Error("a paused server stored a message")
	}
	if err := n.Resume(); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.a", []byte("x")); err != nil {
		t.Errorf("after the pause: %v", err)
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := n.Pause(); err == nil {
		t.Error("a server that does not run was paused")
	}
	if err := n.Limit(64 << 10); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused := false
	for range 100 {
		if _, err := jetStream(t, n.URL).Publish(t.Context(), "s.a", make([]byte, 4<<10)); err != nil {
			refused = true
			break
		}
	}
	if !refused {
		t.Error("400 KiB were stored in 64 KiB")
	}
}
