package s3store

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/test/faultproxy"
)

// results writes a report's checks in one line.
func results(r Report) string {
	var out []string
	for _, check := range r.Checks {
		out = append(out, check.Name+": "+string(check.Result))
	}
	return strings.Join(out, ", ")
}

const allGood = "write and read: ok, conditional write: ok, payload hash: ok, checksum: ok, listing: ok, deletion: ok, versions: ok, clock: ok"

func TestProbe(t *testing.T) {
	s3 := server(t)
	opts := optionsFor(s3, s3.Endpoint)
	opts.Prefix = "probed"
	s := newStore(t, opts)
	report := s.Probe(t.Context())
	if diff := cmp.Diff(allGood, results(report)); diff != "" {
		t.Errorf("report (-want +got):\n%s\n%s", diff, report)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if text := report.String(); !strings.Contains(text, "payload hash") || strings.Contains(text, s3.SecretKey) {
		t.Errorf("the report for people:\n%s", text)
	}
	raw, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(raw, &back); err != nil || results(back) != allGood {
		t.Errorf("the report for programs: %s, error %v", raw, err)
	}
	left, err := s.page(t.Context(), s.fullKey("probe/"), "")
	if err != nil || len(left) != 0 {
		t.Errorf("the probe leaves %v, error %v", left, err)
	}
}

func TestProbeFindsFaults(t *testing.T) {
	conditionalPut := func(r *http.Request) bool { return r.Method == put && r.Header.Get("If-None-Match") != "" }
	stored := faultproxy.Fixed(faultproxy.Answer{Status: 200, Header: http.Header{"Etag": {`"0"`}}})
	cases := map[string]struct {
		rules []faultproxy.Rule
		want  string // a part of the results
		err   error
	}{
		"a condition that is ignored":    {[]faultproxy.Rule{{Match: conditionalPut, Fault: stored}}, "conditional write: warning", nil},
		"a condition that is unknown":    {[]faultproxy.Rule{{Match: conditionalPut, Fault: faultproxy.Refuse(501, "NotImplemented")}}, "conditional write: warning", nil},
		"a payload hash that is ignored": {[]faultproxy.Rule{{Match: faultproxy.PathHas(put, "/hash"), Fault: stored}}, "payload hash: warning, checksum: ok", nil},
		"a checksum that is ignored":     {[]faultproxy.Rule{{Match: faultproxy.PathHas(put, "/sum"), Fault: stored}}, "payload hash: ok, checksum: warning", nil},
		"neither is verified": {
			[]faultproxy.Rule{{Match: faultproxy.PathHas(put, "/hash"), Fault: stored}, {Match: faultproxy.PathHas(put, "/sum"), Fault: stored}},
			"payload hash: failed", ErrProbe,
		},
		"no clear answer about hashes": {[]faultproxy.Rule{{Match: faultproxy.PathHas(put, "/hash"), Fault: faultproxy.Refuse(500, "InternalError")}}, "payload hash: failed", ErrProbe},
		"new objects are not listed":   {[]faultproxy.Rule{{Match: faultproxy.Listing, Fault: faultproxy.Fixed(listPage(nil, ""))}}, "listing: failed", ErrProbe},
		"nothing may be deleted":       {[]faultproxy.Rule{always(http.MethodPost, "", faultproxy.Refuse(403, "AccessDenied"))}, "deletion: failed", ErrDenied},
		"nothing may be read":          {[]faultproxy.Rule{always(get, "", faultproxy.Refuse(403, "AccessDenied"))}, "write and read: failed, clock: ok", ErrDenied},
		"nothing may be written":       {[]faultproxy.Rule{always(put, "", faultproxy.Refuse(403, "AccessDenied"))}, "write and read: failed, clock: ok", ErrDenied},
		"what is read is damaged":      {[]faultproxy.Rule{always(get, "", faultproxy.FlipAnswer(2))}, "write and read: failed", cas.ErrCorrupt},
		"a bucket with versions": {
			[]faultproxy.Rule{{
				Match: func(r *http.Request) bool { return r.URL.Query().Has("versioning") },
				Fault: faultproxy.Fixed(faultproxy.Answer{Status: 200, Body: []byte(`<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`)}),
			}},
			"versions: warning", nil,
		},
		"clocks that are 5 minutes apart": {[]faultproxy.Rule{{Fault: skewAnswers(5 * time.Minute)}}, "clock: warning", nil},
		"an overload in between":          {[]faultproxy.Rule{{Times: 2, After: 1, Fault: faultproxy.Refuse(503, "SlowDown")}}, allGood, nil},
		"a bucket that is not there":      {[]faultproxy.Rule{{Fault: faultproxy.Refuse(404, "NoSuchBucket")}}, "write and read: failed", ErrNoBucket},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := "probed-" + strings.ReplaceAll(name, " ", "-")
			spoilt, direct, proxy := throughProxy(t, func(o *Options) { o.Prefix = prefix })
			direct.opts.Prefix = prefix
			proxy.Script(tc.rules...)
			report := spoilt.Probe(t.Context())
			if got := results(report); !strings.Contains(got, tc.want) {
				t.Errorf("report %q, want %q in it\n%s", got, tc.want, report)
			}
			err := report.Err()
			if !errors.Is(err, tc.err) || (err != nil) != (tc.err != nil) {
				t.Errorf("got error %v, want %v", err, tc.err)
			}
			if err != nil && !errors.Is(err, ErrProbe) {
				t.Errorf("error %v does not wrap %v", err, ErrProbe)
			}
			if left, err := direct.page(t.Context(), direct.fullKey("probe/"), ""); err != nil || len(left) != 0 {
				t.Errorf("the probe leaves %v, error %v", left, err)
			}
		})
	}
}

// skewAnswers moves the server's date.
func skewAnswers(d time.Duration) faultproxy.Fault {
	return func(e *faultproxy.Exchange) {
		a := e.Forward()
		if at, err := http.ParseTime(a.Header.Get("Date")); err == nil {
			a.Header.Set("Date", at.Add(d).UTC().Format(http.TimeFormat))
		}
		e.Reply(a)
	}
}

// The server of the tests accepts a request for encryption and does nothing about it.
func TestEncryptionMustBeConfirmed(t *testing.T) {
	s3 := server(t)
	opts := optionsFor(s3, s3.Endpoint)
	opts.Encryption = EncryptionS3
	if _, err := Open(t.Context(), opts); !errors.Is(err, ErrNotEncrypted) || !errors.Is(err, ErrProbe) {
		t.Errorf("open: got %v, want %v", err, ErrNotEncrypted)
	}
	s := newStore(t, opts)
	scope := castest.NewScope(t, s)
	if _, err := s.Put(t.Context(), scope, cas.MediaBlob, []byte("secret")); !errors.Is(err, ErrNotEncrypted) {
		t.Errorf("put: got %v, want %v", err, ErrNotEncrypted)
	}
	confirm := func(value string) faultproxy.Fault {
		return func(e *faultproxy.Exchange) {
			a := e.Forward()
			a.Header.Set(encryptionHeader, value)
			e.Reply(a)
		}
	}
	cases := map[string]struct {
		encryption Encryption
		confirmed  string
		want       error
	}{
		"what was asked for":       {EncryptionS3, "AES256", nil},
		"a key management service": {EncryptionKMS, "aws:kms", nil},
		"another kind than asked":  {EncryptionKMS, "AES256", ErrNotEncrypted},
		"an empty confirmation":    {EncryptionS3, "", ErrNotEncrypted},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spoilt, _, proxy := throughProxy(t, func(o *Options) { o.Encryption = tc.encryption })
			proxy.Script(always(put, "confirmed", confirm(tc.confirmed)))
			report := spoilt.Probe(t.Context())
			if err := report.Err(); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if want := "encryption: ok"; tc.want == nil && !strings.Contains(results(report), want) {
				t.Errorf("report %q, want %q in it", results(report), want)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	s3 := server(t)
	cases := map[string]struct {
		change func(*Options)
		want   error
		text   string
	}{
		"the right options":          {func(*Options) {}, nil, ""},
		"a bucket that is not there": {func(o *Options) { o.Bucket = "nobody-has-made-it" }, ErrNoBucket, "nobody-has-made-it"},
		"a wrong secret":             {func(o *Options) { o.SecretKey = "wrong" }, ErrDenied, "secret key"},
		"an unknown account":         {func(o *Options) { o.AccessKey = "nobody" }, ErrDenied, ""},
		"a wrong region":             {func(o *Options) { o.Region = "eu-central-1" }, errAny, ""},
		"nobody at that port":        {func(o *Options) { o.Endpoint = "http://127.0.0.1:1"; o.Retry.Attempts = 2 }, ErrProbe, "refused"},
		"options that are none":      {func(o *Options) { o.Bucket = "" }, errAny, "bucket"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			opts := optionsFor(s3, s3.Endpoint)
			tc.change(&opts)
			s, err := Open(t.Context(), opts)
			if s != nil {
				s.Close()
			}
			checkError(t, err, tc.want, tc.text)
			if err != nil && strings.Contains(err.Error(), s3.SecretKey) {
				t.Error("the error holds the secret")
			}
		})
	}
}
