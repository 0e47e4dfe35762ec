package s3store

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/pkg/cas/codec"
	"github.com/agentloop/agentloop/test/faultproxy"
)

const (
	put = http.MethodPut
	get = http.MethodGet
)

// once and always are rules for one method.
func once(method, name string, fault faultproxy.Fault) faultproxy.Rule {
	return faultproxy.Rule{Name: name, Match: faultproxy.Method(method), Times: 1, Fault: fault}
}

func always(method, name string, fault faultproxy.Fault) faultproxy.Rule {
	return faultproxy.Rule{Name: name, Match: faultproxy.Method(method), Fault: fault}
}

// page404 is what a web server says that has never heard of S3.
var page404 = faultproxy.Fixed(faultproxy.Answer{
	Status: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/html"}}, Body: []byte("<html><body>Not Found</body></html>"),
})

func TestPutThroughFaults(t *testing.T) {
	longer := strings.Repeat("words that are long enough to be compressed ", 100)
	cases := map[string]struct {
		rules []faultproxy.Rule
		trace string // the requests; empty for any
		want  error  // nil when the put must succeed
		text  string // a part of the error
	}{
		"no fault":                   {nil, "PUT", nil, ""},
		"overloaded twice":           {[]faultproxy.Rule{{Name: "busy", Match: faultproxy.Method(put), Times: 2, Fault: faultproxy.Refuse(503, "SlowDown")}}, "PUT(busy) PUT(busy) PUT", nil, ""},
		"an internal error":          {[]faultproxy.Rule{once(put, "500", faultproxy.Refuse(500, "InternalError"))}, "PUT(500) PUT", nil, ""},
		"a bad gateway":              {[]faultproxy.Rule{once(put, "502", faultproxy.Fixed(faultproxy.Answer{Status: 502, Body: []byte("bad gateway")}))}, "PUT(502) PUT", nil, ""},
		"a reset before the request": {[]faultproxy.Rule{once(put, "reset", faultproxy.ResetBefore())}, "PUT(reset) PUT", nil, ""},
		"a reset instead of the answer: 412 for our own bytes, read back": {
			[]faultproxy.Rule{once(put, "reset", faultproxy.ResetAfter())}, "PUT(reset) PUT GET", nil, "",
		},
		"an error although it was stored": {[]faultproxy.Rule{once(put, "lie", faultproxy.Lie(500, "InternalError"))}, "PUT(lie) PUT GET", nil, ""},
		"a conflict of writers":           {[]faultproxy.Rule{once(put, "409", faultproxy.Refuse(409, "ConditionalRequestConflict"))}, "PUT(409) PUT", nil, ""},
		"an error inside a success":       {[]faultproxy.Rule{once(put, "200", faultproxy.Refuse(200, "InternalError"))}, "PUT(200) PUT", nil, ""},
		"an overload inside a success":    {[]faultproxy.Rule{once(put, "200", faultproxy.Refuse(200, "SlowDown"))}, "PUT(200) PUT", nil, ""},
		"a success that no S3 server gave": {
			[]faultproxy.Rule{once(put, "portal", faultproxy.Fixed(faultproxy.Answer{Status: 200, Body: []byte("<html>please log in</html>")}))}, "PUT(portal) PUT", nil, "",
		},
		"a 412 for a key that is not there": {[]faultproxy.Rule{once(put, "412", faultproxy.Refuse(412, "PreconditionFailed"))}, "PUT(412) GET PUT", nil, ""},
		"a server without conditions":       {[]faultproxy.Rule{once(put, "501", faultproxy.Refuse(501, "NotImplemented"))}, "PUT(501) GET PUT", nil, ""},
		"a bit flipped on the way":          {[]faultproxy.Rule{once(put, "flip", faultproxy.FlipRequest(5))}, "PUT(flip) PUT", nil, ""},
		"an upload that is cut":             {[]faultproxy.Rule{once(put, "cut", faultproxy.CutUpload(7))}, "", nil, ""},
		"a page that is not found once":     {[]faultproxy.Rule{once(put, "404", page404)}, "PUT(404) PUT", nil, ""},
		"overloaded for ever": {
			[]faultproxy.Rule{always(put, "busy", faultproxy.Refuse(503, "SlowDown"))},
			"PUT(busy) PUT(busy) PUT(busy) PUT(busy) PUT(busy) PUT(busy)", errAny, "gave up after 6 attempts",
		},
		"a wrong address": {[]faultproxy.Rule{always(put, "404", page404)}, "", errAny, "gave up"},
		"a proxy that rewrites Host": {
			[]faultproxy.Rule{always(put, "host", faultproxy.RewriteHost("s3.internal"))}, "PUT(host)", ErrDenied, "Host header",
		},
		"a proxy that rewrites the path": {
			[]faultproxy.Rule{always(put, "path", faultproxy.RewritePath("/tests/", "/s3/tests/"))}, "PUT(path)", ErrDenied, "path",
		},
		"our clock behind": {[]faultproxy.Rule{always(put, "skew", faultproxy.SkewClock(-20*time.Minute))}, "PUT(skew)", ErrClockSkew, "20m0s behind"},
		"our clock ahead":  {[]faultproxy.Rule{always(put, "skew", faultproxy.SkewClock(20*time.Minute))}, "PUT(skew)", ErrClockSkew, "20m0s ahead"},
		"no access":        {[]faultproxy.Rule{always(put, "403", faultproxy.Refuse(403, "AccessDenied"))}, "PUT(403)", ErrDenied, "AccessDenied"},
		"no bucket":        {[]faultproxy.Rule{always(put, "404", faultproxy.Refuse(404, "NoSuchBucket"))}, "PUT(404)", ErrNoBucket, "/agentloop"},
		"a request that no server likes": {
			[]faultproxy.Rule{always(put, "400", faultproxy.Refuse(400, "InvalidRequest"))}, "PUT(400)", errAny, "InvalidRequest",
		},
		"a redirect": {[]faultproxy.Rule{always(put, "301", faultproxy.Refuse(301, "PermanentRedirect"))}, "PUT(301)", errAny, "PermanentRedirect"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spoilt, direct, proxy := throughProxy(t, nil)
			scope := castest.NewScope(t, direct)
			proxy.Script(tc.rules...)
			data := []byte(longer)
			ref, err := spoilt.Put(t.Context(), scope, cas.MediaBlob, data)
			checkError(t, err, tc.want, tc.text)
			if got := trace(proxy); tc.trace != "" && got != tc.trace {
				t.Errorf("requests %q, want %q", got, tc.trace)
			}
			if tc.want != nil {
				if cas.IsFinal(err) {
					t.Errorf("an error of the way is given for one of the object: %v", err)
				}
				return
			}
			if got, err := direct.Get(t.Context(), scope, ref); err != nil || !bytes.Equal(got, data) {
				t.Errorf("what was acknowledged: %d bytes, error %v", len(got), err)
			}
		})
	}
}

// errAny stands for an error that has no sentinel.
var errAny = errors.New("any error")

func checkError(t *testing.T, err, want error, text string) {
	t.Helper()
	switch {
	case want == nil && err != nil:
		t.Fatalf("got error %v", err)
	case want == nil:
		return
	case err == nil:
		t.Fatal("got no error")
	case !errors.Is(want, errAny) && !errors.Is(err, want):
		t.Errorf("got error %v, want %v", err, want)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("error %q does not say %q", err, text)
	}
}

func TestGetThroughFaults(t *testing.T) {
	cases := map[string]struct {
		rules []faultproxy.Rule
		trace string
		want  error
		text  string
		// final says that the error is one of the object.
		final bool
	}{
		"no fault":                     {nil, "GET", nil, "", false},
		"overloaded once":              {[]faultproxy.Rule{once(get, "busy", faultproxy.Refuse(503, "SlowDown"))}, "GET(busy) GET", nil, "", false},
		"a reset":                      {[]faultproxy.Rule{once(get, "reset", faultproxy.ResetAfter())}, "GET(reset) GET", nil, "", false},
		"an answer that is cut":        {[]faultproxy.Rule{once(get, "cut", faultproxy.CutAnswer(20))}, "GET(cut) GET", nil, "", false},
		"an answer cut in the header":  {[]faultproxy.Rule{once(get, "cut", faultproxy.CutAnswer(3))}, "GET(cut) GET", nil, "", false},
		"an error inside a success":    {[]faultproxy.Rule{once(get, "200", faultproxy.Refuse(200, "InternalError"))}, "GET(200) GET", nil, "", false},
		"a short answer once":          {[]faultproxy.Rule{once(get, "short", faultproxy.ShortenAnswer(30))}, "GET(short) GET", nil, "", false},
		"a bit flipped once":           {[]faultproxy.Rule{once(get, "flip", faultproxy.FlipAnswer(3))}, "GET(flip) GET", nil, "", false},
		"not found by a web server":    {[]faultproxy.Rule{once(get, "404", page404)}, "GET(404) GET", nil, "", false},
		"answers that are always cut":  {[]faultproxy.Rule{always(get, "cut", faultproxy.CutAnswer(20))}, "", errAny, "gave up after 6 attempts", false},
		"always an error in a success": {[]faultproxy.Rule{always(get, "200", faultproxy.Refuse(200, "InternalError"))}, "", errAny, "InternalError", false},
		"never found by a web server":  {[]faultproxy.Rule{always(get, "404", page404)}, "", errAny, "not by an S3 server", false},
		"answers that are always short": {
			[]faultproxy.Rule{always(get, "short", faultproxy.ShortenAnswer(30))}, "GET(short) GET(short)", cas.ErrCorrupt, "", true,
		},
		"a bit that is always flipped": {[]faultproxy.Rule{always(get, "flip", faultproxy.FlipAnswer(3))}, "GET(flip) GET(flip)", cas.ErrCorrupt, "", true},
		"not found by an S3 server":    {[]faultproxy.Rule{always(get, "404", faultproxy.Refuse(404, "NoSuchKey"))}, "GET(404)", cas.ErrNotFound, "", true},
		"no access":                    {[]faultproxy.Rule{always(get, "403", faultproxy.Refuse(403, "AccessDenied"))}, "GET(403)", ErrDenied, "", false},
		"our clock behind":             {[]faultproxy.Rule{always(get, "skew", faultproxy.SkewClock(-20*time.Minute))}, "GET(skew)", ErrClockSkew, "time synchronisation", false},
		"an endless object": {
			[]faultproxy.Rule{always(get, "long", faultproxy.Fixed(faultproxy.Answer{Status: 200, Header: http.Header{"Last-Modified": {"Mon, 02 Jan 2006 15:04:05 GMT"}}, Body: make([]byte, 9<<20)}))},
			"GET(long)", cas.ErrTooLarge, "", true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spoilt, direct, proxy := throughProxy(t, nil)
			scope := castest.NewScope(t, direct)
			data := castest.Noise(2000, 7)
			ref, err := direct.Put(t.Context(), scope, cas.MediaBlob, data)
			if err != nil {
				t.Fatal(err)
			}
			proxy.Script(tc.rules...)
			got, err := spoilt.Get(t.Context(), scope, ref)
			checkError(t, err, tc.want, tc.text)
			if tc.want == nil && !bytes.Equal(got, data) {
				t.Error("other bytes came back")
			}
			if requests := trace(proxy); tc.trace != "" && requests != tc.trace {
				t.Errorf("requests %q, want %q", requests, tc.trace)
			}
			if cas.IsFinal(err) != tc.final {
				t.Errorf("error %v: final %t, want %t", err, !tc.final, tc.final)
			}
			if again, err := direct.Get(t.Context(), scope, ref); err != nil || !bytes.Equal(again, data) {
				t.Errorf("the object afterwards: %d bytes, error %v", len(again), err)
			}
		})
	}
}

func TestDamagedObjects(t *testing.T) {
	data := []byte(strings.Repeat("what was meant to be stored ", 50))
	whole, err := codec.Encode(data)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-1] ^= 1
	cases := map[string]struct {
		there []byte
		want  error
	}{
		"the beginning of an upload":     {whole[:len(whole)/2], cas.ErrCorrupt},
		"an upload that brought nothing": {nil, cas.ErrCorrupt},
		"zeroes behind the beginning":    {append(bytes.Clone(whole[:20]), make([]byte, len(whole)-20)...), cas.ErrCorrupt},
		"a flipped bit":                  {flipped, cas.ErrCorrupt},
		"foreign bytes":                  {[]byte("#!/bin/sh"), cas.ErrCorrupt},
		"far too many bytes":             {make([]byte, len(data)+1000), cas.ErrTooLarge},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spoilt, direct, proxy := throughProxy(t, nil)
			scope := castest.NewScope(t, direct)
			ref := cas.Ref{Digest: cas.Of(data), Size: int64(len(data))}
			plant(t, direct, scope, ref.Digest, tc.there)
			if _, err := direct.Get(t.Context(), scope, ref); !errors.Is(err, tc.want) {
				t.Errorf("get: got %v, want %v", err, tc.want)
			}
			if got := stored(t, direct, scope, ref.Digest); !bytes.Equal(got, tc.there) {
				t.Error("reading changed what is stored")
			}
			if _, err := spoilt.Put(t.Context(), scope, cas.MediaBlob, data); err != nil {
				t.Fatalf("put: %v", err)
			}
			if got := trace(proxy); got != "PUT GET PUT" {
				t.Errorf("requests %q, want a refused put, a look, and a put over it", got)
			}
			if got, err := direct.Get(t.Context(), scope, ref); err != nil || !bytes.Equal(got, data) {
				t.Errorf("after the put: %d bytes, error %v", len(got), err)
			}
		})
	}
}

func TestPutOfWhatIsThere(t *testing.T) {
	cases := map[string]struct {
		change func(*Store)
		trace  string
	}{
		"is confirmed by reading":                    {func(*Store) {}, "PUT GET"},
		"is written again when it is old":            {func(s *Store) { s.opts.RefreshAfter = -time.Minute }, "PUT GET PUT"},
		"is looked for first without conditions":     {func(s *Store) { s.unconditional.Store(true) }, "GET"},
		"is written again without conditions if old": {func(s *Store) { s.unconditional.Store(true); s.opts.RefreshAfter = -time.Minute }, "GET PUT"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spoilt, direct, proxy := throughProxy(t, nil)
			scope := castest.NewScope(t, direct)
			if _, err := direct.Put(t.Context(), scope, cas.MediaBlob, []byte("there already")); err != nil {
				t.Fatal(err)
			}
			tc.change(spoilt)
			if _, err := spoilt.Put(t.Context(), scope, cas.MediaBlob, []byte("there already")); err != nil {
				t.Fatal(err)
			}
			if got := trace(proxy); got != tc.trace {
				t.Errorf("requests %q, want %q", got, tc.trace)
			}
		})
	}
}

// listPage writes a listing as S3 does.
func listPage(keys []string, token string) faultproxy.Answer {
	var body strings.Builder
	fmt.Fprintf(&body, `<?xml version="1.0"?><ListBucketResult><IsTruncated>%t</IsTruncated><NextContinuationToken>%s</NextContinuationToken>`, token != "", token)
	for _, key := range keys {
		fmt.Fprintf(&body, `<Contents><Key>%s</Key><Size>1</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>`, key)
	}
	body.WriteString(`</ListBucketResult>`)
	return faultproxy.Answer{Status: 200, Header: http.Header{"Content-Type": {"application/xml"}}, Body: []byte(body.String())}
}

func TestListThroughFaults(t *testing.T) {
	prefix := "tests/v1/ns/uid/cas/sha256/"
	key := func(text string) string {
		hex := cas.Of([]byte(text)).Hex()
		return prefix + hex[:2] + "/" + hex[2:4] + "/" + hex
	}
	fresh := func() faultproxy.Fault {
		n := 0
		return func(e *faultproxy.Exchange) {
			n++
			e.Reply(listPage(nil, fmt.Sprintf("token-%d", n)))
		}
	}
	cases := map[string]struct {
		rules []faultproxy.Rule
		count int
		want  error
		text  string
	}{
		"no fault":                  {nil, 3, nil, ""},
		"overloaded once":           {[]faultproxy.Rule{once(get, "busy", faultproxy.Refuse(503, "SlowDown"))}, 3, nil, ""},
		"an answer that is cut":     {[]faultproxy.Rule{once(get, "cut", faultproxy.CutAnswer(100))}, 3, nil, ""},
		"an answer that is short":   {[]faultproxy.Rule{once(get, "short", faultproxy.ShortenAnswer(100))}, 3, nil, ""},
		"an error inside a success": {[]faultproxy.Rule{once(get, "200", faultproxy.Refuse(200, "InternalError"))}, 3, nil, ""},
		"a page of a web server":    {[]faultproxy.Rule{once(get, "404", page404)}, 3, nil, ""},
		"always an error inside":    {[]faultproxy.Rule{always(get, "200", faultproxy.Refuse(200, "InternalError"))}, 0, errAny, "InternalError"},
		"the same token for ever":   {[]faultproxy.Rule{always(get, "loop", faultproxy.Fixed(listPage(nil, "token")))}, 0, errListingLoops, "token twice"},
		"a truncated page without a token": {
			[]faultproxy.Rule{always(get, "loop", faultproxy.Fixed(faultproxy.Answer{Status: 200, Body: []byte(`<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>`)}))}, 0, errAny, "continuation token",
		},
		"empty pages for ever": {[]faultproxy.Rule{always(get, "empty", fresh())}, 0, errListingLoops, "empty pages"},
		"keys that go backwards": {
			[]faultproxy.Rule{always(get, "back", faultproxy.Fixed(listPage([]string{prefix + "b", prefix + "a"}, "")))}, 0, errListingLoops, "after",
		},
		"keys of somebody else": {
			[]faultproxy.Rule{always(get, "other", faultproxy.Fixed(listPage([]string{"tests/v1/ns/other/cas/sha256/x"}, "")))}, 0, errListingLoops, "gives",
		},
		"a listing with foreign keys in it": {
			[]faultproxy.Rule{always(get, "some", faultproxy.Fixed(listPage([]string{prefix + "!notes", key("a"), prefix + "zz"}, "")))}, 1, nil, "",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spoilt, direct, proxy := throughProxy(t, nil)
			scope := cas.Scope{Namespace: "ns", Session: "uid"}
			for _, text := range []string{"a", "b", "c"} {
				if _, err := direct.Put(t.Context(), scope, cas.MediaBlob, []byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			proxy.Script(tc.rules...)
			count := 0
			err := spoilt.List(t.Context(), scope, func(cas.Ref) error { count++; return nil })
			checkError(t, err, tc.want, tc.text)
			if tc.want == nil && count != tc.count {
				t.Errorf("%d objects are listed, want %d", count, tc.count)
			}
		})
	}
}

func TestPurgeThroughFaults(t *testing.T) {
	post := http.MethodPost
	partly := func(e *faultproxy.Exchange) {
		a := faultproxy.Answer{Status: 200, Body: []byte(`<DeleteResult><Error><Key>k</Key><Code>InternalError</Code><Message>no</Message></Error></DeleteResult>`)}
		e.Reply(a)
	}
	cases := map[string]struct {
		rules []faultproxy.Rule
		want  error
		text  string
	}{
		"overloaded once":                   {[]faultproxy.Rule{once(post, "busy", faultproxy.Refuse(503, "SlowDown"))}, nil, ""},
		"a reset after the work":            {[]faultproxy.Rule{once(post, "reset", faultproxy.ResetAfter())}, nil, ""},
		"an error inside a success":         {[]faultproxy.Rule{once(post, "200", faultproxy.Refuse(200, "InternalError"))}, nil, ""},
		"a listing with an error":           {[]faultproxy.Rule{once(get, "200", faultproxy.Refuse(200, "InternalError"))}, nil, ""},
		"one key that could not be removed": {[]faultproxy.Rule{once(post, "part", partly)}, nil, ""},
		"a server without deletion of many": {[]faultproxy.Rule{always(post, "501", faultproxy.Refuse(501, "NotImplemented"))}, nil, ""},
		"deletions that do nothing":         {[]faultproxy.Rule{always(post, "noop", faultproxy.Fixed(faultproxy.Answer{Status: 200, Body: []byte(`<DeleteResult></DeleteResult>`)}))}, errAny, "still listed"},
		"no right to delete":                {[]faultproxy.Rule{always(post, "403", faultproxy.Refuse(403, "AccessDenied"))}, ErrDenied, ""},
		"keys that can never be removed":    {[]faultproxy.Rule{always(post, "part", partly)}, errAny, "gave up"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spoilt, direct, proxy := throughProxy(t, func(o *Options) { o.pageSize = 3 })
			scope := castest.NewScope(t, direct)
			for i := range 8 {
				if _, err := direct.Put(t.Context(), scope, cas.MediaBlob, fmt.Append(nil, i)); err != nil {
					t.Fatal(err)
				}
			}
			proxy.Script(tc.rules...)
			checkError(t, spoilt.Purge(t.Context(), scope), tc.want, tc.text)
			left := 0
			if err := direct.List(t.Context(), scope, func(cas.Ref) error { left++; return nil }); err != nil {
				t.Fatal(err)
			}
			if tc.want == nil && left != 0 {
				t.Errorf("%d objects are left", left)
			}
		})
	}
}

func TestPurgeRemovesWhatIsNoObject(t *testing.T) {
	s3 := server(t)
	s := newStore(t, optionsFor(s3, s3.Endpoint))
	scope := castest.NewScope(t, s)
	key := s.fullKey("v1/" + scope.Namespace + "/" + scope.Session + "/archive/run.jsonl.zst")
	if _, err := s.core.Client.PutObject(t.Context(), s3.Bucket, key, strings.NewReader("sealed"), 6, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), scope); err != nil {
		t.Fatal(err)
	}
	_, err := s.core.StatObject(t.Context(), s3.Bucket, key, minio.StatObjectOptions{})
	if got := minio.ToErrorResponse(err).StatusCode; got != http.StatusNotFound {
		t.Errorf("the session's archive after a purge: status %d (%v), want 404", got, err)
	}
}
