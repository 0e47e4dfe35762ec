package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/agentloop/agentloop/pkg/cas"
)

func TestOptions(t *testing.T) {
	good := Options{Endpoint: "https://s3.example:9000", Bucket: "agentloop", AccessKey: "a", SecretKey: "s"}
	cases := map[string]struct {
		change func(*Options)
		text   string // a part of the error; empty when the options are good
	}{
		"as they are":                     {func(*Options) {}, ""},
		"a slash behind the host":         {func(o *Options) { o.Endpoint += "/" }, ""},
		"the environment's account":       {func(o *Options) { o.AccessKey, o.SecretKey = "", "" }, ""},
		"a prefix":                        {func(o *Options) { o.Prefix = "team-a/agents_1.x" }, ""},
		"a KMS key":                       {func(o *Options) { o.Encryption, o.KMSKey = EncryptionKMS, "key-1" }, ""},
		"the path style":                  {func(o *Options) { o.Addressing = AddressingPath }, ""},
		"no endpoint":                     {func(o *Options) { o.Endpoint = "" }, "http or https"},
		"an endpoint without scheme":      {func(o *Options) { o.Endpoint = "s3.example:9000" }, "http or https"},
		"an endpoint with a path":         {func(o *Options) { o.Endpoint += "/s3" }, "nothing behind it"},
		"an endpoint with a query":        {func(o *Options) { o.Endpoint += "?a=b" }, "nothing behind it"},
		"an endpoint with a user":         {func(o *Options) { o.Endpoint = "https://u:password@s3.example" }, "nothing behind it"},
		"no bucket":                       {func(o *Options) { o.Bucket = "" }, "bucket"},
		"a bucket in capitals":            {func(o *Options) { o.Bucket = "Agentloop" }, "bucket"},
		"a prefix with a slash":           {func(o *Options) { o.Prefix = "/a" }, "prefix"},
		"a prefix that goes up":           {func(o *Options) { o.Prefix = "a/../b" }, "prefix"},
		"a prefix with a colon":           {func(o *Options) { o.Prefix = "a:b" }, "prefix"},
		"half an account":                 {func(o *Options) { o.SecretKey = "" }, "together"},
		"a token alone":                   {func(o *Options) { o.AccessKey, o.SecretKey, o.SessionToken = "", "", "t" }, "access key"},
		"an unknown encryption":           {func(o *Options) { o.Encryption = "rot13" }, "encryption"},
		"a key without KMS":               {func(o *Options) { o.KMSKey = "key-1" }, "KMS"},
		"an unknown addressing":           {func(o *Options) { o.Addressing = "dns" }, "addressing"},
		"a negative age":                  {func(o *Options) { o.RefreshAfter = -1 }, "negative"},
		"a CA bundle without certificate": {func(o *Options) { o.CABundle = []byte("none") }, "certificate"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			opts := good
			tc.change(&opts)
			s, err := New(opts)
			if tc.text == "" {
				if err != nil {
					t.Fatal(err)
				}
				s.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error %v, want one with %q", err, tc.text)
			}
			if err != nil && strings.Contains(err.Error(), "password") {
				t.Errorf("the error holds a password: %v", err)
			}
		})
	}
}

func TestClassify(t *testing.T) {
	answer := func(status int, code string) error { return minio.ErrorResponse{StatusCode: status, Code: code} }
	cases := map[string]struct {
		err  error
		want class
	}{
		"nothing":                           {nil, classNone},
		"no answer":                         {&url.Error{Op: "Put", Err: io.ErrUnexpectedEOF}, classRetry},
		"an attempt that took too long":     {context.DeadlineExceeded, classRetry},
		"overload by code":                  {answer(503, "SlowDown"), classSlow},
		"overload by a code in a success":   {answer(500, "SlowDown"), classSlow},
		"overload by status":                {answer(503, ""), classSlow},
		"too many requests":                 {answer(429, "Whatever"), classSlow},
		"a server's error":                  {answer(500, "InternalError"), classRetry},
		"an unknown server's error":         {answer(520, "520"), classRetry},
		"a gateway that waited":             {answer(504, "504 Gateway Timeout"), classRetry},
		"a damaged upload":                  {answer(400, "BadDigest"), classRetry},
		"a slow upload":                     {answer(400, "RequestTimeout"), classRetry},
		"a conflict":                        {answer(409, "OperationAborted"), classRetry},
		"a failed condition":                {answer(412, "PreconditionFailed"), classExists},
		"a missing key":                     {answer(404, "NoSuchKey"), classMissing},
		"another thing missing":             {answer(404, "XAdminUserNotFound"), classFinal},
		"a missing bucket":                  {answer(404, "NoSuchBucket"), classFinal},
		"not implemented":                   {answer(501, "NotImplemented"), classUnsupported},
		"not implemented by status":         {answer(501, "XNotImplemented"), classUnsupported},
		"no access":                         {answer(403, "AccessDenied"), classFinal},
		"clocks apart":                      {answer(403, "RequestTimeTooSkewed"), classFinal},
		"another request error":             {answer(400, "InvalidArgument"), classFinal},
		"a redirect":                        {answer(307, "TemporaryRedirect"), classFinal},
		"a wrapped answer":                  {fmt.Errorf("put: %w", answer(503, "SlowDown")), classSlow},
		"a corrupt object":                  {cas.ErrCorrupt, classFinal},
		"a suspect that is looked at twice": {again{cas.ErrCorrupt}, classRetry},
		"missing encryption":                {fmt.Errorf("x: %w", ErrNotEncrypted), classFinal},
		"TLS against a plain port":          {&url.Error{Op: "Get", Err: http.ErrSchemeMismatch}, classFinal},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := classify(tc.err); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestDelay(t *testing.T) {
	r := Retry{First: 100 * time.Millisecond, Most: time.Second}
	cases := map[string]struct {
		attempt   int
		kind      class
		low, high time.Duration
	}{
		"the first":                 {1, classRetry, 50 * time.Millisecond, 100 * time.Millisecond},
		"the third":                 {3, classRetry, 200 * time.Millisecond, 400 * time.Millisecond},
		"the fifth is bounded":      {5, classRetry, 500 * time.Millisecond, time.Second},
		"one of very many":          {1 << 40, classRetry, 500 * time.Millisecond, time.Second},
		"the first of an overload":  {1, classSlow, 200 * time.Millisecond, 400 * time.Millisecond},
		"a late one of an overload": {20, classSlow, 2 * time.Second, 4 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			seen := map[time.Duration]bool{}
			for range 200 {
				d := r.delay(tc.attempt, tc.kind)
				if d < tc.low || d > tc.high {
					t.Fatalf("a pause of %v, want %v to %v", d, tc.low, tc.high)
				}
				seen[d] = true
			}
			if len(seen) < 100 {
				t.Errorf("%d different pauses among 200", len(seen))
			}
		})
	}
	if d := (Retry{}).delay(3, classSlow); d != 0 {
		t.Errorf("a pause of %v without any due", d)
	}
}

func TestIsErrorBody(t *testing.T) {
	cases := map[string]bool{
		`<Error><Code>X</Code></Error>`:                                             true,
		`<?xml version="1.0" encoding="UTF-8"?>` + "\n<Error>":                      true,
		"\xef\xbb\xbf  \n<?xml version=\"1.0\"?> <Error xmlns=\"http://s3\"><Code>": true,
		`<ErrorDocument><Key>`:                                                      false,
		`<DeleteResult><Error>`:                                                     false,
		`<?xml version="1.0"?><ListBucketResult>`:                                   false,
		`<?xml version="1.0"`:                                                       false,
		"ALC\x01\x00<Error>":                                                        false,
		`<Error`:                                                                    false,
		``:                                                                          false,
	}
	for body, want := range cases {
		if got := isErrorBody([]byte(body)); got != want {
			t.Errorf("%q: got %t, want %t", body, got, want)
		}
	}
}

// What the caller of the transport reads is what the server sent, whatever was looked at before.
func FuzzUnmask(f *testing.F) {
	f.Add(200, []byte(`<?xml version="1.0"?><Error><Code>X</Code></Error>`))
	f.Add(404, []byte(`<html>`))
	f.Add(200, []byte("ALC\x01\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		req := &http.Request{Method: http.MethodGet, URL: &url.URL{}}
		resp := &http.Response{StatusCode: status, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(string(body)))}
		got := unmask(req, resp)
		defer got.Body.Close()
		after, err := io.ReadAll(got.Body)
		if err != nil || string(after) != string(body) {
			t.Fatalf("%q became %q, error %v", body, after, err)
		}
		if got.StatusCode != status && status != http.StatusOK && status != http.StatusNotFound {
			t.Fatalf("status %d became %d", status, got.StatusCode)
		}
	})
}

func TestExplainKeepsSentinels(t *testing.T) {
	s := &Store{opts: Options{Endpoint: "https://s3.example", Bucket: "b"}, transport: &transport{}}
	for _, err := range []error{ErrNotEncrypted, cas.ErrCorrupt, errListingLoops} {
		if got := s.explain(fmt.Errorf("x: %w", err)); !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	if got := s.explain(minio.ErrorResponse{StatusCode: 403, Code: "RequestTimeTooSkewed"}); !errors.Is(got, ErrClockSkew) {
		t.Errorf("clocks apart before any date was heard: %v", got)
	}
}
