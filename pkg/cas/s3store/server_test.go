package s3store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/test/faultproxy"
	"github.com/agentloop/agentloop/test/services"
)

// shared is the S3 server of the test binary, started by the first test that needs it.
var shared struct {
	once sync.Once
	s3   *services.S3
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.s3 != nil {
		if err := shared.s3.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// server returns a real S3 server that all tests of the binary share.
func server(t testing.TB) *services.S3 {
	t.Helper()
	folder := services.Folder(t)
	shared.once.Do(func() {
		shared.dir, shared.err = os.MkdirTemp("", "s3store-test-") //nolint:usetesting // outlives the test that comes first
		if shared.err == nil {
			shared.s3, shared.err = services.StartS3(context.Background(), services.S3Options{Programs: folder, Dir: shared.dir})
		}
	})
	if shared.err != nil {
		t.Fatalf("start S3 server: %v", shared.err)
	}
	return shared.s3
}

// optionsFor returns options with short pauses for a server, reached at endpoint.
func optionsFor(s3 *services.S3, endpoint string) Options {
	return Options{
		Endpoint: endpoint, Region: s3.Region, Bucket: s3.Bucket, Prefix: "tests",
		AccessKey: s3.AccessKey, SecretKey: s3.SecretKey,
		Retry: Retry{First: time.Millisecond, Most: 4 * time.Millisecond, Attempt: 20 * time.Second},
	}
}

func newStore(t testing.TB, opts Options) *Store {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// throughProxy returns a store that reaches the shared server through a fault proxy, and one that reaches it directly.
func throughProxy(t *testing.T, change func(*Options)) (spoilt, direct *Store, proxy *faultproxy.Proxy) {
	t.Helper()
	s3 := server(t)
	proxy, err := faultproxy.Start(s3.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	opts := optionsFor(s3, proxy.URL())
	if change != nil {
		change(&opts)
	}
	return newStore(t, opts), newStore(t, optionsFor(s3, s3.Endpoint)), proxy
}

// maxConflicts is how often plant takes a conflict for an answer.
const maxConflicts = 20

// plant writes bytes under an object's key, as a broken upload or a foreign hand would.
func plant(t *testing.T, s *Store, scope cas.Scope, digest cas.Digest, body []byte) {
	t.Helper()
	key, err := s.objectKey(scope, digest)
	if err != nil {
		t.Fatal(err)
	}
	// A server on folders refuses a put as a conflict while another test's purge removes a folder that they share, as the
	// store itself expects.
	for range maxConflicts {
		_, err = s.core.Client.PutObject(t.Context(), s.opts.Bucket, key, bytes.NewReader(body), int64(len(body)), minio.PutObjectOptions{})
		if minio.ToErrorResponse(err).StatusCode != http.StatusConflict {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// stored returns the bytes under an object's key.
func stored(t *testing.T, s *Store, scope cas.Scope, digest cas.Digest) []byte {
	t.Helper()
	key, err := s.objectKey(scope, digest)
	if err != nil {
		t.Fatal(err)
	}
	object, err := s.core.Client.GetObject(t.Context(), s.opts.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	raw, err := io.ReadAll(object)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// trace writes the requests that a proxy saw in one line: the method, and the rule that spoilt it.
func trace(p *faultproxy.Proxy) string {
	var out bytes.Buffer
	for i, seen := range p.Seen() {
		if i > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(seen.Method)
		if seen.Rule != "" {
			fmt.Fprintf(&out, "(%s)", seen.Rule)
		}
	}
	return out.String()
}
