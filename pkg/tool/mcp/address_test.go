package mcp

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAllowedAddresses holds the list to what it names. What is no machine's address stays refused.
func TestAllowedAddresses(t *testing.T) {
	policy := AddressPolicy{}
	for _, prefix := range []string{"169.254.25.0/24", "169.254.169.254/32", "127.0.0.1/32", "10.0.0.0/8", "fe80::1/128", "64:ff9b::/96"} {
		policy.Allowed = append(policy.Allowed, netip.MustParsePrefix(prefix))
	}
	cases := map[string]struct {
		address string
		want    bool
	}{
		"a link-local service":         {"169.254.25.10", true},
		"another link-local address":   {"169.254.26.10", false},
		"the metadata service":         {"169.254.169.254", true},
		"the same, inside IPv6":        {"::ffff:169.254.169.254", true},
		"another metadata service":     {"168.63.129.16", false},
		"this machine":                 {"127.0.0.1", true},
		"this machine, another way":    {"127.0.0.2", false},
		"a private address":            {"10.20.30.40", true},
		"another private address":      {"192.168.1.1", false},
		"link-local IPv6, with a zone": {"fe80::1%eth0", true},
		"an allowed translation range": {"64:ff9b::c0a8:101", true},
		"another translation range":    {"2002:c0a8:101::1", false},
		"an allowed address inside it": {"2002:0a01:203::1", true},
	}
	for name, tc := range cases {
		if err := policy.Check(netip.MustParseAddr(tc.address)); (err == nil) != tc.want {
			t.Errorf("%s (%s): %v, want admitted %t", name, tc.address, err, tc.want)
		}
	}
	everything := AddressPolicy{Allowed: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
	for _, address := range []string{"0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1"} {
		if err := everything.Check(netip.MustParseAddr(address)); !errors.Is(err, ErrAddressRefused) {
			t.Errorf("%s is admitted: %v", address, err)
		}
	}
}

// TestWaysToWriteThisMachine writes loopback and unspecified addresses in every way that some program takes. None is called
// without leave.
func TestWaysToWriteThisMachine(t *testing.T) {
	called := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	answerNames(t, func(string) []string { return nil })
	for _, host := range []string{
		"127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "127.0.0.1.", "localhost", "localhost.", "LOCALHOST",
		"0", "0.0.0.0", "[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "%31%32%37.0.0.1", "\uff11\uff12\uff17.0.0.1",
	} {
		cfg := config("http://" + host + ":" + port + "/")
		_, problems, err := Connect(t.Context(), []ServerConfig{cfg}, Options{Addresses: AddressPolicy{AllowPrivate: true}, ConnectTimeout: 5 * time.Second})
		if err == nil || called {
			t.Errorf("%s: called %t, problems %+v", host, called, problems)
		}
	}
}

// TestNamesOfRefusedAddresses resolves a name to addresses that may not be called, from the start or all of a sudden. The
// address is checked when it is dialled, whatever the name was before.
func TestNamesOfRefusedAddresses(t *testing.T) {
	f := &fake{}
	server := f.start(t)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	address := "127.0.0.1"
	answerNames(t, func(name string) []string {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(name, "metadata.") {
			return []string{"169.254.169.254"}
		}
		return []string{address}
	})
	_, problems, err := Connect(t.Context(), []ServerConfig{config("http://metadata.example:" + port)}, Options{Addresses: local})
	if err == nil || len(problems) != 1 || problems[0].Reason != ReasonAddressRefused {
		t.Errorf("a name of the metadata service: %v, %+v", err, problems)
	}
	set := connect(t, config("http://tools.example:"+port), Options{})
	wantText(t, call(t, set, "srv__write", `{}`), "ok")
	mu.Lock()
	address = "169.254.169.254"
	mu.Unlock()
	set.opts.Connections.Close() // the next request needs a connection of its own
	for range 2 {
		got := call(t, set, "srv__write", `{}`)
		wantText(t, got, "was not run")
		if !got.IsError || f.callCount() != 1 {
			t.Errorf("after the name changed: %+v, %d calls", got, f.callCount())
		}
	}
	wantText(t, call(t, set, "srv__write", `{}`), "not allowed")
}

// answerNames makes the resolver of this program ask a server of the test.
func answerNames(t *testing.T, addresses func(name string) []string) {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		query := make([]byte, 512)
		for {
			n, from, err := socket.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = socket.WriteTo(nameAnswer(query[:n], addresses), from) // the asker has gone otherwise
		}
	}()
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = socket.Close() // ends the goroutine
		<-done
	})
}

// nameAnswer answers a query for one name: IPv4 addresses, or that there are none.
func nameAnswer(query []byte, addresses func(string) []string) []byte {
	const header = 12
	var labels []string
	end := header
	for query[end] != 0 {
		labels = append(labels, string(query[end+1:end+1+int(query[end])]))
		end += 1 + int(query[end])
	}
	question := query[header : end+5] // the name's end, type and class
	var records []byte
	count := uint16(0)
	if binary.BigEndian.Uint16(query[end+1:]) == 1 { // A
		for _, address := range addresses(strings.Join(labels, ".") + ".") {
			four := netip.MustParseAddr(address).As4()
			records = append(records, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name above, A, IN, no time to live, four bytes
			records = append(records, four[:]...)
			count++
		}
	}
	flags := uint16(0x8180) // an answer, with recursion
	if count == 0 {
		flags |= 3 // no such name
	}
	out := append([]byte{}, query[:2]...)
	for _, n := range []uint16{flags, 1, count, 0, 0} {
		out = binary.BigEndian.AppendUint16(out, n)
	}
	return append(append(out, question...), records...)
}
