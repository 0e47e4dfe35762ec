package modelserver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkTrivialReply is a whole exchange on loopback: what the server costs as the peer of another benchmark.
func BenchmarkTrivialReply(b *testing.B) {
	for name, script := range map[string]string{
		"recorded":   "model: m\nreplies: [{content: [{text: fine}], repeat: true}]",
		"unrecorded": "model: m\nrecord: false\nreplies: [{content: [{text: fine}], repeat: true}]",
	} {
		for protocol, ask := range asked {
			b.Run(name+"/"+protocol, func(b *testing.B) { exchangeLoop(b, script, ask.path, ask.streamed) })
		}
	}
}

// BenchmarkLargeContext has the context of a long session: 100 KB in 200 messages.
func BenchmarkLargeContext(b *testing.B) {
	var list []string
	for range 100 {
		list = append(list, user(textBlock(strings.Repeat("some words of a question. ", 20))),
			assistant(textBlock(strings.Repeat("some words of an answer. ", 20))))
	}
	body := messages(strings.Join(append(list, userHi), ","), `"stream":true`)
	exchangeLoop(b, "model: m\nrecord: false\nreplies: [{content: [{text: fine}], repeat: true}]", "/v1/messages", body)
}

func exchangeLoop(b *testing.B, script, path, body string) {
	s := New(Options{MaxRecordedBytes: 1 << 20})
	if _, err := s.LoadYAML([]byte(script), ""); err != nil {
		b.Fatal(err)
	}
	ts := httptest.NewServer(s)
	defer ts.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := exchangeOnce(b.Context(), client, ts.URL+path, body); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}

func exchangeOnce(ctx context.Context, client *http.Client, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Anthropic-Version", "2023-06-01")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return err
}
