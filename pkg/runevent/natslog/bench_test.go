package natslog_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/logtest"
	"github.com/agentloop/agentloop/test/services"
)

// BenchmarkAppend measures acknowledged entries on a server that writes through to its disk before it answers.
func BenchmarkAppend(b *testing.B) {
	server := services.NATSForTest(b)
	for _, streams := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			log, _ := connect(b, server.URL)
			b.ResetTimer()
			fill(b, log, b.N, streams)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
		})
	}
}

// BenchmarkRead measures reads of one session among many: the whole of it, and the newest entries of a long stream.
func BenchmarkRead(b *testing.B) {
	server, err := services.StartNATS(b.Context(), services.NATSOptions{
		Programs: services.Folder(b), Dir: b.TempDir(), SyncInterval: "2m",
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Kill() })
	log, _ := connect(b, server.URL)
	fill(b, log, 45_000, 300)
	short := logtest.NewStream()
	logtest.Fill(b, log, short, runevent.Head{}, 100)
	long := logtest.NewStream()
	records := logtest.Fill(b, log, long, runevent.Head{}, 5000)
	fill(b, log, 45_000, 300)
	logtest.Fill(b, log, long, records[len(records)-1].Head, 20)

	cases := map[string]struct {
		stream runevent.Stream
		after  int64
		want   int
	}{
		"session of 100":       {short, 0, 100},
		"last 20 of 5020":      {long, 5000, 20},
		"whole stream of 5020": {long, 0, 5020},
	}
	for name, tc := range cases {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				cold, _ := connect(b, server.URL) // without memory of an earlier read
				b.StartTimer()
				got := 0
				err := cold.Read(bounded(b), tc.stream, tc.after, func(runevent.Record) error { got++; return nil })
				if err != nil || got != tc.want {
					b.Fatalf("%d entries, %v", got, err)
				}
			}
		})
	}
}

// fill appends n entries to new streams, each stream by a writer of its own.
func fill(b *testing.B, log runevent.Log, n, streams int) {
	b.Helper()
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	for range streams {
		stream := logtest.NewStream()
		wg.Go(func() {
			w := runevent.NewWriter(log, runevent.WriterConfig{Stream: stream, Now: time.Now})
			for left.Add(-1) >= 0 {
				if _, _, err := w.Append(b.Context(), event("some hundred bytes of text that a model wrote within a quarter of a second")); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
