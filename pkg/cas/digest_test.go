package cas_test

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
)

const emptyHex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestDigestOf(t *testing.T) {
	if got := cas.Of(nil).String(); got != "sha256:"+emptyHex {
		t.Errorf("digest of nothing is %q", got)
	}
	if cas.Of([]byte("a")) != cas.FromSum(sha256.Sum256([]byte("a"))) {
		t.Error("hashing and taking a finished sum differ")
	}
	if cas.Of([]byte("a")) == cas.Of([]byte("b")) {
		t.Error("different bytes have the same digest")
	}
}

func TestParseDigest(t *testing.T) {
	cases := map[string]struct {
		in string
		ok bool
	}{
		"the written form":       {"sha256:" + emptyHex, true},
		"nothing":                {"", false},
		"digits alone":           {emptyHex, false},
		"another algorithm":      {"sha512:" + emptyHex, false},
		"capital algorithm":      {"SHA256:" + emptyHex, false},
		"capital digits":         {"sha256:" + strings.ToUpper(emptyHex), false},
		"a digit too few":        {"sha256:" + emptyHex[1:], false},
		"a digit too many":       {"sha256:" + emptyHex + "0", false},
		"a letter beyond f":      {"sha256:g" + emptyHex[1:], false},
		"a path in the digits":   {"sha256:../" + emptyHex[3:], false},
		"a space in front":       {" sha256:" + emptyHex, false},
		"a line feed at the end": {"sha256:" + emptyHex + "\n", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := cas.ParseDigest(tc.in)
			if (err == nil) != tc.ok {
				t.Fatalf("error %v, want success %t", err, tc.ok)
			}
			if tc.ok && got.String() != tc.in {
				t.Errorf("written back as %q", got)
			}
			if !tc.ok && !got.IsZero() {
				t.Errorf("a digest came with the error: %q", got)
			}
		})
	}
}

func TestDigestJSON(t *testing.T) {
	type holder struct {
		D cas.Digest  `json:"d"`
		P *cas.Digest `json:"p,omitempty"`
	}
	d := cas.Of(nil)
	cases := map[string]struct {
		value holder
		text  string
	}{
		"a digest":       {holder{D: d, P: &d}, `{"d":"sha256:` + emptyHex + `","p":"sha256:` + emptyHex + `"}`},
		"the zero value": {holder{}, `{"d":""}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(tc.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.text, string(raw)); diff != "" {
				t.Errorf("written form (-want +got):\n%s", diff)
			}
			var back holder
			if err := json.Unmarshal(raw, &back); err != nil {
				t.Fatal(err)
			}
			if back.D != tc.value.D || (back.P == nil) != (tc.value.P == nil) {
				t.Errorf("read back as %+v", back)
			}
		})
	}
	for name, raw := range map[string]string{"a number": `{"d":7}`, "another text": `{"d":"sha256:abc"}`, "a list": `{"d":[]}`} {
		t.Run(name+" is refused", func(t *testing.T) {
			var h holder
			if err := json.Unmarshal([]byte(raw), &h); err == nil {
				t.Errorf("read as %+v", h)
			}
		})
	}
}

// Whatever parses is written back unchanged and has a key below its session.
func FuzzParseDigest(f *testing.F) {
	f.Add("sha256:" + emptyHex)
	f.Add("sha256:")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := cas.ParseDigest(s)
		if err != nil {
			return
		}
		if d.String() != s {
			t.Fatalf("%q is written back as %q", s, d)
		}
		scope := cas.Scope{Namespace: "ns", Session: "uid"}
		key, err := cas.Key(scope, d)
		if err != nil {
			t.Fatal(err)
		}
		back, ok := cas.ParseObjectKey(strings.TrimPrefix(key, "v1/ns/uid/cas/sha256/"))
		if !ok || back != d {
			t.Fatalf("key %q reads back as %q", key, back)
		}
	})
}
