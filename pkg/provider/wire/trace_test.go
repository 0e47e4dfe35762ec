package wire

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestTraceHeaders adds the headers of a trace, and changes nothing where there are none.
func TestTraceHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		trace func(context.Context) map[string]string
		want  string
	}{
		"nobody traces":       {},
		"not part of a trace": {trace: func(context.Context) map[string]string { return nil }},
		"part of one":         {trace: func(context.Context) map[string]string { return map[string]string{"traceparent": "00-a-b-01"} }, want: "00-a-b-01"},
	} {
		t.Run(name, func(t *testing.T) {
			var got http.Header
			client, err := New(Config{Trace: c.trace, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				got = r.Header
				return nil, errors.New("down")
			})}, "http://models.example.com")
			if err != nil {
				t.Fatal(err)
			}
			guarded := &call{guard: func([]byte) error { return nil }}
			req, err := http.NewRequestWithContext(withCall(t.Context(), guarded), http.MethodPost, client.BaseURL, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "signed")
			if _, err := client.HTTP.Transport.RoundTrip(req); err == nil { //nolint:bodyclose // no response came
				t.Fatal("no error")
			}
			if got.Get("Traceparent") != c.want || got.Get("Authorization") != "signed" || req.Header.Get("Traceparent") != "" {
				t.Errorf("sent %v, the request has %v", got, req.Header)
			}
		})
	}
}
