package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestToolNames(t *testing.T) {
	long := strings.Repeat("x", 70)
	cases := map[string]struct{ server, tool, want string }{
		"plain names are joined":             {"weather", "get_forecast", "weather__get_forecast"},
		"other characters get a hash":        {"weather", "get.forecast", "weather__get_forecast_3ed190b7"},
		"and so does another original":       {"weather", "get/forecast", "weather__get_forecast_0e7e76e2"},
		"long names are shortened":           {"weather", long, "weather__" + strings.Repeat("x", 46) + "_3625e1ff"},
		"a server with an underscore":        {"a_b", "c", "a_b__c_0c1d18f5"},
		"letters outside ASCII":              {"wetter", "größe", "wetter__gr__e_e6a891b5"},
		"a name that is just as long as may": {"s", strings.Repeat("y", 61), "s__" + strings.Repeat("y", 61)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ToolName(tc.server, tc.tool); got != tc.want {
				t.Errorf("ToolName(%q, %q) = %q, want %q", tc.server, tc.tool, got, tc.want)
			}
		})
	}
}

func FuzzToolName(f *testing.F) {
	f.Add("a", "b__c", "a__b", "c")
	f.Add("s", "a.b", "s", "a/b")
	f.Add("s", strings.Repeat("x", 100), "s", strings.Repeat("x", 101))
	valid := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	f.Fuzz(func(t *testing.T, server, name, server2, name2 string) {
		a, b := ToolName(server, name), ToolName(server2, name2)
		if !valid.MatchString(a) {
			t.Errorf("ToolName(%q, %q) = %q", server, name, a)
		}
		if a == b && (server != server2 || name != name2) {
			t.Errorf("(%q, %q) and (%q, %q) both become %q", server, name, server2, name2, a)
		}
	})
}

func TestAddressPolicy(t *testing.T) {
	open := AddressPolicy{AllowLoopback: true, AllowPrivate: true}
	cases := map[string]struct {
		address string
		closed  bool // admitted by the zero policy
		open    bool // admitted when loopback and private addresses are
	}{
		"public":                          {"93.184.216.34", true, true},
		"public, IPv6":                    {"2606:2800:220:1::1", true, true},
		"loopback":                        {"127.0.0.1", false, true},
		"another loopback":                {"127.8.8.8", false, true},
		"loopback, IPv6":                  {"::1", false, true},
		"loopback inside IPv6":            {"::ffff:127.0.0.1", false, true},
		"private":                         {"10.1.2.3", false, true},
		"private inside NAT64":            {"64:ff9b::a01:203", false, true},
		"unique local":                    {"fd12::1", false, true},
		"carrier range":                   {"100.64.0.1", false, true},
		"link-local":                      {"169.254.1.1", false, false},
		"metadata":                        {"169.254.169.254", false, false},
		"metadata inside IPv6":            {"::ffff:169.254.169.254", false, false},
		"metadata inside NAT64":           {"64:ff9b::a9fe:a9fe", false, false},
		"metadata inside 6to4":            {"2002:a9fe:a9fe::1", false, false},
		"metadata of one cloud, IPv6":     {"fd00:ec2::254", false, false},
		"metadata of one cloud, IPv4":     {"168.63.129.16", false, false},
		"metadata of one cloud, carrier":  {"100.100.100.200", false, false},
		"link-local with a zone":          {"fe80::1%eth0", false, false},
		"site-local":                      {"fec0::1", false, false},
		"unspecified":                     {"0.0.0.0", false, false},
		"this network":                    {"0.1.2.3", false, false},
		"unspecified, IPv6":               {"::", false, false},
		"multicast":                       {"224.0.0.1", false, false},
		"multicast, IPv6":                 {"ff02::1", false, false},
		"broadcast":                       {"255.255.255.255", false, false},
		"reserved for the future of IPv4": {"240.0.0.1", false, false},
		"metadata inside a site's NAT64":  {"64:ff9b:1::a9fe:a9fe", false, false},
		"metadata, IPv4-compatible":       {"::169.254.169.254", false, false},
		"metadata, IPv4-translated":       {"::ffff:0:a9fe:a9fe", false, false},
		"metadata inside Teredo":          {"2001:0:102:304:0:0:5601:5601", false, false},
		"public inside Teredo":            {"2001:0:102:304:0:0:a247:27dd", true, true},
		"loopback, IPv4-compatible":       {"::127.0.0.1", false, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			addr := netip.MustParseAddr(tc.address)
			for i, policy := range []AddressPolicy{{}, open} {
				want := []bool{tc.closed, tc.open}[i]
				err := policy.Check(addr)
				if (err == nil) != want || err != nil && !errors.Is(err, ErrAddressRefused) {
					t.Errorf("%+v: error %v, want admitted %t", policy, err, want)
				}
				if got := policy.Control("tcp", netip.AddrPortFrom(addr, 80).String(), nil); (got == nil) != want {
					t.Errorf("Control: %v", got)
				}
			}
		})
	}
	if err := open.Control("unix", "/tmp/socket", nil); !errors.Is(err, ErrAddressRefused) {
		t.Errorf("a socket: %v", err)
	}
	if err := open.Check(netip.Addr{}); !errors.Is(err, ErrAddressRefused) {
		t.Errorf("no address: %v", err)
	}
}

func TestDeclare(t *testing.T) {
	cases := map[string]struct{ schema, want, note, err string }{
		"an object stays, compact and in order": {`{ "type":"object", "required":["b"], "properties":{"b":{},"a":{}} }`, `{"type":"object","required":["b"],"properties":{"b":{},"a":{}}}`, "", ""},
		"nothing":                               {``, `{"type":"object","properties":{}}`, "", ""},
		"null":                                  {`null`, `{"type":"object","properties":{}}`, "", ""},
		"without type":                          {`{"properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`, "", ""},
		"combinators at the root":               {`{"type":"object","oneOf":[{"required":["a"]}],"properties":{"a":{}},"not":{}}`, `{"type":"object","properties":{"a":{}}}`, `{"oneOf":[{"required":["a"]}],"not":{}}`, ""},
		"a list":                                {`[]`, "", "", "no JSON object"},
		"no JSON":                               {`{"type":`, "", "", "no JSON object"},
		"a type list":                           {`{"type":["object","null"]}`, "", "", "not of type object"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, note, err := declare(json.RawMessage(tc.schema))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || string(got) != tc.want || !strings.HasSuffix(note, tc.note) || (note == "") != (tc.note == "") {
				t.Errorf("got %s with note %q and error %v, want %s with %q", got, note, err, tc.want, tc.note)
			}
		})
	}
}

func FuzzDeclare(f *testing.F) {
	f.Add([]byte(`{"type":"object","anyOf":[1],"a":{"b":[1,2]}}`))
	f.Add([]byte(`{"a":1}{"b":2}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		got, _, err := declare(schema)
		if err != nil {
			return
		}
		var object map[string]any
		if json.Unmarshal(got, &object) != nil || object["type"] != "object" || object["properties"] == nil && !strings.Contains(string(schema), "properties") {
			t.Errorf("declare(%q) = %q", schema, got)
		}
		again, note, err := declare(got)
		if err != nil || string(again) != string(got) || note != "" {
			t.Errorf("declared again: %q with note %q and error %v, want %q", again, note, err, got)
		}
		_ = newChecker(got).complaints(json.RawMessage(`{"a":1}`)) // must come back
	})
}

// doubling is a small schema whose references ask for 2^levels checks.
func doubling(levels int) string {
	return `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + definitions(levels) + `}}`
}

func definitions(levels int) string {
	var b strings.Builder
	for i := range levels {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"type":"string"}`, levels)
	return b.String()
}

// disguised is a schema whose references seem to mean a harmless definition of the document, and really mean those of a
// document within it, which ask for 2^40 checks.
var disguised = `{"type":"object","properties":{"a":{"$id":"urn:inner","allOf":[{"$ref":"#/$defs/d0"}],"$defs":{` + definitions(40) + `}}},"$defs":{"d0":{},` + decoys(40) + `}}`

func decoys(levels int) string {
	var parts []string
	for i := range levels {
		parts = append(parts, fmt.Sprintf(`"d%d":{}`, i+1))
	}
	return strings.Join(parts, ",")
}

func TestSchemasThatCannotBeCheckedAcceptEverything(t *testing.T) {
	cases := map[string]struct {
		schema  string
		checked bool
	}{
		"plain":                           {`{"type":"object","properties":{"a":{"type":"string"}}}`, true},
		"draft-07":                        {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"string"}}}`, true},
		"references inside":               {`{"type":"object","properties":{"a":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, true},
		"few references that double":      {doubling(5), true},
		"many references that double":     {doubling(40), false},
		"recursion":                       {`{"type":"object","properties":{"a":{"type":"string"},"next":{"$ref":"#/$defs/n"}},"$defs":{"n":{"properties":{"next":{"$ref":"#/$defs/n"}}}}}`, false},
		"recursion to the root":           {`{"type":"object","properties":{"a":{"type":"string"},"next":{"$ref":"#"}}}`, false},
		"a pattern with a lookbehind":     {`{"type":"object","properties":{"a":{"type":"string","pattern":"(?<=x)y"}}}`, false},
		"a reference to a file":           {`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`, false},
		"a reference to a URL":            {`{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/x"}}}`, false},
		"an unknown dialect":              {`{"$schema":"http://example.com/dialect","type":"object","properties":{"a":{"type":"string"}}}`, false},
		"dynamic references":              {`{"type":"object","properties":{"a":{"$dynamicRef":"#x"}}}`, false},
		"not a schema":                    {`{"type":"object","properties":{"a":{"type":"strange"}}}`, false},
		"a document within the document":  {disguised, false},
		"the same, in the oldest dialect": {strings.ReplaceAll(`{"$schema":"http://json-schema.org/draft-04/schema#",`+disguised[1:], "$id", "id"), false},
		"a field that is named id":        {`{"type":"object","properties":{"a":{"type":"string"},"id":{"type":"string"},"$id":{"type":"string"}}}`, true},
		"a reference that leads nowhere":  {`{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			complaints := newChecker(json.RawMessage(tc.schema)).complaints(json.RawMessage(`{"a":1,"next":{"next":{}}}`))
			if (len(complaints) > 0) != tc.checked {
				t.Errorf("complaints %q, want some: %t", complaints, tc.checked)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// events collects what a scanner finds in pieces of a stream.
func events(s *eventScanner, pieces ...[]byte) []string {
	var found []string
	for _, piece := range pieces {
		s.feed(piece, func(e event) { found = append(found, strings.Trim(e.name+" "+string(e.data), " ")) })
	}
	return found
}

func TestEventScanner(t *testing.T) {
	const input = ": hello\nevent: message\nid: 1\ndata: {\"a\":\ndata:1}\n\ndata: two\r\n\r\nretry: 5\n\ndata:\n\ndata: three"
	var s eventScanner
	if diff := cmp.Diff([]string{"message {\"a\":\n1}", "two"}, events(&s, []byte(input))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"three"}, events(&s, []byte("\n\n"))); diff != "" {
		t.Errorf("the last event (-want +got):\n%s", diff)
	}
}

func FuzzEventScanner(f *testing.F) {
	f.Add([]byte("data: a\n\ndata: b\r\ndata: c\n\n"), uint64(1))
	f.Add([]byte("id: 1\n\n\n\ndata:\n\ndata: x"), uint64(7))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		var cut [][]byte
		random := rand.New(rand.NewPCG(seed, seed))
		for rest := stream; len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			cut, rest = append(cut, rest[:n]), rest[n:]
		}
		if diff := cmp.Diff(events(&eventScanner{}, stream), events(&eventScanner{}, cut...)); diff != "" {
			t.Errorf("in pieces (-want +got):\n%s", diff)
		}
	})
}
