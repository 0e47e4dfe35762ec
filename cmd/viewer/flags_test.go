package main

import (
	"strings"
	"testing"
)

// TestFlags refuses what the viewer has no use for, and says which flag is wrong.
func TestFlags(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"none":                         {nil, ""},
		"a server and a folder":        {[]string{"--nats-url=nats://nats:4222", "--store=fs", "--store-dir=/data"}, ""},
		"the viewer makes no streams":  {[]string{"--nats-replicas=3"}, "nats-replicas"},
		"the viewer bounds no streams": {[]string{"--nats-max-bytes=1"}, "nats-max-bytes"},
		"a certificate without a key":  {[]string{"--tls-cert-file=tls.crt"}, "--tls-key-file"},
		"an argument":                  {[]string{"serve"}, "serve"},
		"no exports":                   {[]string{"--max-exports=0"}, "--max-exports=0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := parse(c.args)
			if c.want == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want one about %s", err, c.want)
			}
		})
	}
}
