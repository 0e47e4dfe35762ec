package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/test/world"
)

// overheadLevels are how many runs there are at once. The delays leave the two CPUs time: what is measured is what a turn takes
// besides its model, and not how long it waits for a machine that is full.
var overheadLevels = []struct {
	runs, turns int
	delay       time.Duration
}{{1, 30, 200 * time.Millisecond}, {32, 8, 2 * time.Second}, {256, 3, 15 * time.Second}}

// measureOverhead compares the time that turns take besides their model with what their bare acknowledgements take: as many
// entries and objects of the same sizes, one after another, by as many clients at once, after the same pauses.
func measureOverhead(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	opts := world.Options{ManagerFlags: []string{"--log-level=info", "--max-concurrent-runs=300"}}
	return inWorld(ctx, c.load, opts, say, func(w *world.World) ([]Figure, error) {
		var figures []Figure
		var of turn
		for _, level := range overheadLevels {
			c.load.runs, c.load.turns, c.load.delay = level.runs, level.turns, level.delay
			got, err := overheadAt(ctx, w, c.load, &of)
			if err != nil {
				return nil, fmt.Errorf("%d runs: %w", level.runs, err)
			}
			figures = append(figures, got...)
		}
		return figures, nil
	})
}

// turn is what a turn stores: the sizes of its entries and objects, in bytes.
type turn struct{ entries, objects []int }

// overheadAt measures one level. The first one, whose run has the most turns, tells for all what a turn stores.
func overheadAt(ctx context.Context, w *world.World, c loadConfig, of *turn) ([]Figure, error) {
	b, err := newLoadBench(ctx, w, c)
	if err != nil {
		return nil, err
	}
	defer b.observer.stop()
	namespace := fmt.Sprintf("overhead-%d", c.runs)
	if err := b.prepare(ctx, namespace); err != nil {
		return nil, err
	}
	// The runs' turns do not coincide: each is created in its own part of a delay.
	err = spread(c.runs, c.delay, func(i int) error { return b.client.Create(ctx, loadRun(namespace, i)) })
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, 2*time.Minute+10*time.Duration(c.turns)*c.delay)
	defer cancel()
	if _, _, err := b.observer.wait(bounded, namespace, func(s *seen) bool { return len(s.ended) == b.runs }); err != nil {
		return nil, err
	}
	own, err := b.turnTimes(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if of.entries == nil {
		if *of, err = b.written(ctx, namespace); err != nil {
			return nil, err
		}
	}
	bare, err := b.bare(ctx, namespace, *of)
	if err != nil {
		return nil, err
	}
	name := func(what string) string { return fmt.Sprintf("%s, %d runs at once", what, c.runs) }
	return []Figure{
		figure("overhead", name("time of a turn besides its model"), "ms", own...),
		figure("overhead", name(fmt.Sprintf("its bare %d entries and %d objects", len(of.entries), len(of.objects))), "ms", bare...),
		figure("overhead", name("the one ÷ the other"), "×", median(own)/median(bare)).atMost(2),
	}, nil
}

// turnTimes reads from the run events how long each turn took besides its model, in milliseconds: from its request's capture to the next
// one's, or to the run's end.
func (b *loadBench) turnTimes(ctx context.Context, namespace string) ([]float64, error) {
	var out []float64
	err := b.eachStream(ctx, namespace, func(log *natslog.Log, stream runevent.Stream) error {
		var began time.Time
		return log.Read(ctx, stream, 0, func(record runevent.Record) error {
			entry, err := runevent.Decode(record.Raw)
			if err != nil {
				return err
			}
			captured := entry.Event.Kind == runevent.KindContextCaptured
			if !captured && entry.Event.Type != runevent.TypeRunFinished {
				return nil
			}
			at := entry.Event.Evidence.RecordedAt
			if !began.IsZero() {
				out = append(out, (at.Sub(began)-b.delay).Seconds()*1000)
			}
			began = at
			return nil
		})
	})
	if err == nil && len(out) != b.runs*b.turns {
		err = fmt.Errorf("the log has %d turns, not %d", len(out), b.runs*b.turns)
	}
	return out, err
}

// eachStream calls do for the main stream of every session.
func (b *loadBench) eachStream(ctx context.Context, namespace string, do func(*natslog.Log, runevent.Stream) error) error {
	nc, err := natslog.Connect(natslog.ConnectOptions{URL: b.world.NATS.URL, Name: "bench"})
	if err != nil {
		return err
	}
	defer nc.Close()
	log, err := natslog.New(nc, natslog.Options{})
	if err != nil {
		return err
	}
	sessions := &api.AgentSessionList{}
	if err := b.client.List(ctx, sessions, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, session := range sessions.Items {
		stream := runevent.Stream{Class: runevent.ClassRun, Namespace: namespace, Session: session.HistoryUID(), Key: runevent.MainAgent}
		if err := do(log, stream); err != nil {
			return fmt.Errorf("read the events of %s: %w", session.Name, err)
		}
	}
	return nil
}

// spread calls do for each of so many, evenly over a time, and waits for all.
func spread(n int, over time.Duration, do func(i int) error) error {
	var group errgroup.Group
	begun := time.Now()
	for i := range n {
		group.Go(func() error {
			<-time.After(time.Until(begun.Add(over * time.Duration(i) / time.Duration(n))))
			return do(i)
		})
	}
	return group.Wait()
}

// written is what a turn of the one session's run stored, on average: every so-manieth entry and object, by size.
func (b *loadBench) written(ctx context.Context, namespace string) (turn, error) {
	var all turn
	var uid string
	err := b.eachStream(ctx, namespace, func(log *natslog.Log, stream runevent.Stream) error {
		uid = stream.Session
		return log.Read(ctx, stream, 0, func(record runevent.Record) error {
			all.entries = append(all.entries, len(record.Raw))
			return nil
		})
	})
	if err != nil {
		return turn{}, err
	}
	err = filepath.WalkDir(b.world.StoreFolders()["s3"], func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !strings.Contains(path, uid) {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			all.objects = append(all.objects, int(info.Size()))
		}
		return err
	})
	if err == nil && (len(all.entries) < b.turns || len(all.objects) < b.turns) {
		err = errors.New("a run that stored hardly anything")
	}
	return turn{entries: sample(all.entries, b.turns), objects: sample(all.objects, b.turns)}, err
}

// sample is one of every n sizes, the middle ones of their neighbours: as many as n-th part of all, rounded down.
func sample(all []int, n int) []int {
	slices.Sort(all)
	out := make([]int, len(all)/n)
	for i := range out {
		out[i] = all[min(i*n+n/2, len(all)-1)]
	}
	return out
}

// bareStream is the stream of the bare entries, with what matters of the one for run events.
var bareStream = jetstream.StreamConfig{
	Name: "BENCH", Subjects: []string{"bench.>"}, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, MaxMsgSize: runevent.MaxMessage,
	AllowDirect: true, DenyDelete: true, Duplicates: 2 * time.Minute,
}

// bare lets as many clients as there were runs store what a turn does, as often and after the same pauses, and returns how long each
// took for it, in milliseconds.
func (b *loadBench) bare(ctx context.Context, namespace string, of turn) ([]float64, error) {
	nc, err := nats.Connect(b.world.NATS.URL)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateOrUpdateStream(ctx, bareStream)
	}
	if err != nil {
		return nil, err
	}
	s3 := b.world.S3
	core, err := minio.NewCore(strings.TrimPrefix(s3.Endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(s3.AccessKey, s3.SecretKey, ""), Region: s3.Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
	})
	if err != nil {
		return nil, err
	}
	took := make([]float64, b.runs*b.turns)
	err = spread(b.runs, b.delay, func(i int) error {
		one := bareRun{js: js, core: core, bucket: s3.Bucket, name: fmt.Sprintf("%s.%d", namespace, i)}
		for n := range b.turns {
			<-time.After(b.delay)
			begun := time.Now()
			if err := one.turn(ctx, of); err != nil {
				return err
			}
			took[i*b.turns+n] = time.Since(begun).Seconds() * 1000
		}
		return nil
	})
	return took, err
}

// bareRun stores what a run does.
type bareRun struct {
	js           jetstream.JetStream
	core         *minio.Core
	bucket, name string
	objects      int
	last         uint64
}

// turn stores objects and entries one after another, as they depend on each other.
func (r *bareRun) turn(ctx context.Context, of turn) error {
	for _, size := range of.objects {
		r.objects++
		body := random(size)
		sum := sha256.Sum256(body)
		opts := minio.PutObjectOptions{DisableContentSha256: true, UserMetadata: map[string]string{"X-Amz-Checksum-Sha256": base64.StdEncoding.EncodeToString(sum[:])}}
		opts.SetMatchETagExcept("*")
		key := fmt.Sprintf("bench/%s/%d", r.name, r.objects)
		if _, err := r.core.PutObject(ctx, r.bucket, key, bytes.NewReader(body), int64(size), "", hex.EncodeToString(sum[:]), opts); err != nil {
			return err
		}
	}
	for _, size := range of.entries {
		ack, err := r.js.Publish(ctx, "bench."+r.name, random(size), jetstream.WithExpectLastSequencePerSubject(r.last), jetstream.WithMsgID(fmt.Sprint(r.name, ".", r.last)))
		if err != nil {
			return err
		}
		r.last = ack.Sequence
	}
	return nil
}

func random(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.Read(b) // never fails
	return b
}
