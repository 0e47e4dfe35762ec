package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
)

// writes counts the API server's mutating requests for agentloop's resources and for Events, refused ones included, by
// resource and subresource. Nobody but agentloop and this program sends any, and its own roles allow no others.
type writes map[string]int

func (w writes) total() int {
	sum := 0
	for _, n := range w {
		sum += n
	}
	return sum
}

func (w writes) since(before writes) writes {
	out := writes{}
	for name, n := range w {
		out[name] = n - before[name]
	}
	return out
}

var (
	requestMetric = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)
	metricLabel   = regexp.MustCompile(`(\w+)="([^"]*)"`)
	mutating      = []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}
	written       = []string{"agentruns", "agentsessions", "modelproviders", "events"}
)

// parseWrites reads the API server's own count of requests out of its metrics.
func parseWrites(metrics []byte) (writes, error) {
	out := writes{}
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		match := requestMetric.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		labels := map[string]string{}
		for _, pair := range metricLabel.FindAllStringSubmatch(match[1], -1) {
			labels[pair[1]] = pair[2]
		}
		if !slices.Contains(mutating, labels["verb"]) || !slices.Contains(written, labels["resource"]) {
			continue
		}
		value, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		name := labels["resource"]
		if sub := labels["subresource"]; sub != "" {
			name += "/" + sub
		}
		out[name] += int(value)
	}
	return out, lines.Err()
}

// quiet waits until nothing has been written for some time and returns the counts.
func (b *loadBench) quiet(ctx context.Context) (writes, error) {
	var last writes
	var since time.Time
	for {
		raw, err := b.world.Client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the API server's metrics: %w", err)
		}
		now, err := parseWrites(raw)
		if err != nil {
			return nil, err
		}
		if last == nil || !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
		if time.Since(since) > settled {
			return last, nil
		}
		select {
		case <-time.After(settled / 6):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// logged reads from the run events when each run was started, counted from begun, and how long it took, in seconds.
func (b *loadBench) logged(ctx context.Context, namespace string, begun time.Time) (waits, lasts []float64, err error) {
	nc, err := natslog.Connect(natslog.ConnectOptions{URL: b.world.NATS.URL, Name: "bench"})
	if err != nil {
		return nil, nil, err
	}
	defer nc.Close()
	log, err := natslog.New(nc, natslog.Options{})
	if err != nil {
		return nil, nil, err
	}
	sessions := &api.AgentSessionList{}
	if err := b.client.List(ctx, sessions, client.InNamespace(namespace)); err != nil {
		return nil, nil, err
	}
	for _, session := range sessions.Items {
		var started time.Time
		stream := runevent.Stream{Class: runevent.ClassRun, Namespace: namespace, Session: session.HistoryUID(), Key: runevent.MainAgent}
		err := log.Read(ctx, stream, 0, func(record runevent.Record) error {
			entry, err := runevent.Decode(record.Raw)
			if err != nil {
				return err
			}
			switch entry.Event.Type {
			case runevent.TypeRunStarted:
				started = entry.Event.Evidence.RecordedAt
				waits = append(waits, started.Sub(begun).Seconds())
			case runevent.TypeRunFinished:
				lasts = append(lasts, entry.Event.Evidence.RecordedAt.Sub(started).Seconds())
			}
			return nil
		})
		if err != nil {
			return nil, nil, fmt.Errorf("read the events of %s: %w", session.Name, err)
		}
	}
	if len(waits) != b.runs || len(lasts) != b.runs {
		return nil, nil, fmt.Errorf("the log has %d starts and %d ends of %d runs", len(waits), len(lasts), b.runs)
	}
	return waits, lasts, nil
}
