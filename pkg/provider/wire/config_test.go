package wire

import (
	"errors"
	"strings"
	"testing"
)

func TestConfigErrors(t *testing.T) {
	cases := map[string]struct {
		cfg  Config
		says string
	}{
		"no scheme":                   {Config{BaseURL: "api.example.com/v1"}, "http://"},
		"another scheme":              {Config{BaseURL: "ftp://example.com"}, "http://"},
		"no host":                     {Config{BaseURL: "https:///v1"}, "no host"},
		"credentials":                 {Config{BaseURL: "https://user:secret@example.com"}, "credentials"},
		"a query":                     {Config{BaseURL: "https://example.com/v1?key=secret"}, "query"},
		"a fragment":                  {Config{BaseURL: "https://example.com/#secret"}, "fragment"},
		"no URL at all":               {Config{BaseURL: "https://exa mple.com/secret%"}, "no URL"},
		"a line break in the key":     {Config{APIKey: "secret\n"}, "API key"},
		"a line break in a header":    {Config{Headers: map[string]string{"X-A": "secret\r\nX-B: c"}}, "X-A"},
		"a header name with a space":  {Config{Headers: map[string]string{"X A": "secret"}}, "no header name"},
		"an empty header name":        {Config{Headers: map[string]string{"": "secret"}}, "no header name"},
		"a header of the transport's": {Config{Headers: map[string]string{"content-length": "1"}}, "Content-Length"},
		"a bundle without a cert":     {Config{CABundle: []byte("secret")}, "CA bundle"},
		"a proxy that is no URL":      {Config{Proxy: "secret:3128"}, "proxy"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.cfg, "https://public.example.com")
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want ErrConfig that says %q", err, c.says)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows what it should not: %v", err)
			}
		})
	}
}

func TestConfigDefaults(t *testing.T) {
	c, err := New(Config{}, "https://public.example.com/v1/")
	if err != nil {
		t.Fatal(err)
	}
	if c.BaseURL != "https://public.example.com/v1" {
		t.Errorf("base URL %q", c.BaseURL)
	}
	c.Close()
}
