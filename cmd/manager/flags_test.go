package main

import (
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/tool/mcp"
)

// TestAddressFlags holds the flags to the addresses that the clients of providers and tool servers may call.
func TestAddressFlags(t *testing.T) {
	addresses := map[string]string{
		"public": "93.184.216.34", "loopback": "127.0.0.1", "private": "10.1.2.3", "link-local": "169.254.25.10", "metadata": "169.254.169.254", "metadata IPv6": "fd00:ec2::254",
	}
	cases := map[string]struct {
		flags []string
		want  string
	}{
		"none":                           {nil, "private public"},
		"no private ones":                {[]string{"--allow-private=false"}, "public"},
		"loopback":                       {[]string{"--allow-loopback"}, "loopback private public"},
		"one address":                    {[]string{"--allow-addresses=169.254.25.10"}, "link-local private public"},
		"a list":                         {[]string{"--allow-addresses", "169.254.169.254, fd00:ec2::254"}, "metadata metadata IPv6 private public"},
		"a range":                        {[]string{"--allow-addresses=169.254.0.0/16"}, "link-local metadata private public"},
		"several lists, nothing private": {[]string{"--allow-private=false", "--allow-addresses=10.0.0.0/8", "--allow-addresses=127.0.0.1"}, "loopback private public"},
		"an IPv4 address inside IPv6":    {[]string{"--allow-addresses=::ffff:169.254.25.10"}, "link-local private public"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cfg, err := parse(tc.flags)
			if err != nil {
				t.Fatal(err)
			}
			e := (&parts{config: cfg}).engine(nil)
			var admitted []string
			for _, name := range []string{"link-local", "loopback", "metadata", "metadata IPv6", "private", "public"} {
				if e.Addresses.Check(netip.MustParseAddr(addresses[name])) == nil {
					admitted = append(admitted, name)
				}
			}
			if got := strings.Join(admitted, " "); got != tc.want {
				t.Errorf("admitted: %s, want %s", got, tc.want)
			}
		})
	}
	for list, want := range map[string]string{
		"": "neither an IP address", "metadata.internal": "neither an IP address", "10.0.0.0/33": "neither an IP address", "10.0.0.1/8": "use 10.0.0.0/8 for the range",
		"127.0.0.1,": "neither an IP address", "fe80::1%eth0": "neither an IP address", "::ffff:10.0.0.0/104": "neither an IP address",
	} {
		if _, err := parse([]string{"--allow-addresses=" + list}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--allow-addresses=%s: %v, want %q", list, err, want)
		}
	}
}

// TestAllowedAddressesAreCalled sends a model request and a tool server's first one to this machine, which only the list
// admits.
func TestAllowedAddressesAreCalled(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	host, _, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{nil, {"--allow-addresses=" + host}} {
		calls = 0
		cfg, err := parse(flags)
		if err != nil {
			t.Fatal(err)
		}
		logger, err := cfg.logging.Logger()
		if err != nil {
			t.Fatal(err)
		}
		e := (&parts{config: cfg, logger: logger}).engine(nil)
		client, err := e.Model(kube.Endpoint{Protocol: provider.APIAnthropicMessages, BaseURL: server.URL, APIKey: "key"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.(interface{ Close() }).Close)
		_, failed := client.Stream(t.Context(), provider.Request{
			Model: provider.Model{API: provider.APIAnthropicMessages, ID: "m"}, MaxTokens: 1, Guard: func([]byte) error { return nil },
			Messages: []message.Message{{Role: message.RoleUser, Content: message.Text("hello")}},
		}, func(provider.Delta) {})
		_, missing := e.Tools(agent.Run{}, []kube.ToolServer{{Name: "tools", URL: server.URL}}).Connect(t.Context(), nil)
		refused := errors.Is(failed, mcp.ErrAddressRefused) && strings.Contains(missing.Error(), mcp.ErrAddressRefused.Error())
		if failed == nil || missing == nil || refused != (flags == nil) || (calls == 0) != (flags == nil) {
			t.Errorf("%v: %d calls, %v, %v", flags, calls, failed, missing)
		}
	}
}

// TestNamespaceFlags holds the manager's cache to the namespaces that were named.
func TestNamespaceFlags(t *testing.T) {
	cases := map[string]struct {
		flags    []string
		watched  []string
		uncached int
	}{
		"all of them":           {nil, nil, 2},
		"two":                   {[]string{"--namespaces=a, b"}, []string{"a", "b"}, 3},
		"one, said three times": {[]string{"--namespaces=a,a", "--namespaces", "a"}, []string{"a"}, 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cfg, err := parse(tc.flags)
			if err != nil {
				t.Fatal(err)
			}
			p := &parts{config: cfg}
			watched := slices.Sorted(maps.Keys(p.cached().DefaultNamespaces))
			if !slices.Equal(watched, tc.watched) || len(p.uncached()) != tc.uncached {
				t.Errorf("watched: %v and %d kinds uncached, want %v and %d", watched, len(p.uncached()), tc.watched, tc.uncached)
			}
		})
	}
	for _, list := range []string{"", "a,", ",a", "a,,b"} {
		if _, err := parse([]string{"--namespaces=" + list}); err == nil || !strings.Contains(err.Error(), "a name is empty") {
			t.Errorf("--namespaces=%s: %v, want that a name is empty", list, err)
		}
	}
}

// TestNATSCertificateFlags wants certificate and key together.
func TestNATSCertificateFlags(t *testing.T) {
	for _, flags := range []string{"--nats-cert-file=a.crt", "--nats-key-file=a.key"} {
		cfg, err := parse([]string{flags})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := cfg.nats.Connect("test", nil); err == nil || !strings.Contains(err.Error(), "belong together") {
			t.Errorf("%s: %v, want that they belong together", flags, err)
		}
	}
}
