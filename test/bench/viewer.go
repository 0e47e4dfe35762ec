package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/known"
	"github.com/agentloop/agentloop/pkg/cas/s3store"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/test/synthetic"
	"github.com/agentloop/agentloop/test/world"
)

type viewerConfig struct {
	events, input, export int
}

func (c *viewerConfig) bind(fs *flag.FlagSet) {
	fs.IntVar(&c.events, "viewer-events", 100_000, "run events of the session that is read")
	fs.IntVar(&c.input, "viewer-input", 200_000, "bytes of each of its model inputs")
	fs.IntVar(&c.export, "viewer-export", 1_000_000_000, "bytes of the larger session that is exported")
}

// measureViewer reads made-up sessions through the viewer's binary, over the real API server, NATS and S3.
func measureViewer(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	return inWorld(ctx, c.load, world.Options{NATSSync: "2m"}, say, func(w *world.World) ([]Figure, error) { return viewerIn(ctx, w, c, say) })
}

func viewerIn(ctx context.Context, w *world.World, c config, say func(string, ...any)) (figures []Figure, err error) {
	b, err := newViewerBench(ctx, w, c.viewer)
	if err != nil {
		return nil, err
	}
	defer b.close()
	session, err := b.make(ctx, "00000000-0000-4000-8000-000000000001", b.usual(), say)
	if err != nil {
		return nil, err
	}
	for _, part := range []func(context.Context, *synthetic.Session, int) ([]Figure, error){b.cold, b.pages, b.refresh, b.details, b.exported} {
		got, err := part(ctx, session, c.count)
		if err != nil {
			return nil, err
		}
		figures = append(figures, got...)
	}
	large, err := b.make(ctx, "00000000-0000-4000-8000-000000000002", b.large(), say)
	if err != nil {
		return nil, err
	}
	got, err := b.exportedLarge(ctx, large)
	return append(figures, got...), err
}

// viewerBench is an installation whose viewer is measured.
type viewerBench struct {
	viewerConfig
	world *world.World
	log   *natslog.Log
	store cas.Store
	token string
	http  http.Client
	close func()
}

const viewerNamespace = "bench"

func newViewerBench(ctx context.Context, w *world.World, c viewerConfig) (*viewerBench, error) {
	if err := w.Namespace(ctx, viewerNamespace); err != nil {
		return nil, err
	}
	token, err := w.ViewerToken(ctx, viewerNamespace)
	if err != nil {
		return nil, err
	}
	objects, err := s3store.New(s3store.Options{
		Endpoint: w.S3.Endpoint, Region: w.S3.Region, Bucket: w.S3.Bucket, Addressing: "path", AccessKey: w.S3.AccessKey, SecretKey: w.S3.SecretKey,
	})
	if err != nil {
		return nil, err
	}
	store, err := known.New(objects, known.Options{})
	if err != nil {
		return nil, err
	}
	nc, err := natslog.Connect(natslog.ConnectOptions{URL: w.NATS.URL, Name: "bench"})
	if err != nil {
		return nil, err
	}
	log, err := natslog.New(nc, natslog.Options{})
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &viewerBench{viewerConfig: c, world: w, log: log, store: store, token: token, close: nc.Close}, nil
}

func (b *viewerBench) usual() synthetic.Shape {
	shape := synthetic.Sized(b.events, time.Hour)
	shape.Input = b.input
	return shape
}

// large is a session whose export has about as many bytes as are wanted: a response has its input, and its state beside.
func (b *viewerBench) large() synthetic.Shape {
	shape := synthetic.Sized(1000, time.Hour)
	shape.Agents, shape.Runs, shape.Turns, shape.Tools, shape.Text, shape.Input = 1, 20, 50, 2, 8000, b.export/1000
	return shape
}

// make writes a session into the stores.
func (b *viewerBench) make(ctx context.Context, uid string, shape synthetic.Shape, say func(string, ...any)) (*synthetic.Session, error) {
	begun := time.Now()
	session, err := synthetic.New(ctx, b.store, cas.Scope{Namespace: viewerNamespace, Session: uid}, shape)
	if err != nil {
		return nil, err
	}
	if err := session.Log.Copy(ctx, b.log); err != nil {
		return nil, err
	}
	say("made %d events of %d agents with %d model inputs in %.0f s", session.Log.Events(), shape.Agents, session.Inputs, time.Since(begun).Seconds())
	return session, nil
}

// restarted starts the viewer anew, so that it has nothing in memory.
func (b *viewerBench) restarted(ctx context.Context) (process, error) {
	if err := b.world.Viewer.Stop(); err != nil {
		return process{}, err
	}
	if err := b.world.Viewer.Start(ctx); err != nil {
		return process{}, err
	}
	b.http.CloseIdleConnections()
	// The first request has the token reviewed and the store's connections opened.
	_, _, err := b.get(ctx, "/api/sessions?namespace="+viewerNamespace, plain)
	return process{b.world.Viewer.PID()}, err
}

func path(session *synthetic.Session, rest string) string {
	return "/api/sessions/" + viewerNamespace + ":" + session.Scope.Session + rest
}

// cold measures the first request of a session.
func (b *viewerBench) cold(ctx context.Context, session *synthetic.Session, count int) ([]Figure, error) {
	var took, cpu, most, kept []float64
	for range count {
		viewer, err := b.restarted(ctx)
		if err != nil {
			return nil, err
		}
		before, err := viewer.cpu()
		if err != nil {
			return nil, err
		}
		_, lasted, err := b.get(ctx, path(session, ""), plain)
		if err != nil {
			return nil, err
		}
		after, err := viewer.cpu()
		if err != nil {
			return nil, err
		}
		now, peak, err := viewer.resident()
		if err != nil {
			return nil, err
		}
		took, cpu = append(took, lasted.Seconds()), append(cpu, (after-before).Seconds())
		most, kept = append(most, mebibytes(peak)), append(kept, mebibytes(now))
	}
	return []Figure{
		figure("viewer", fmt.Sprintf("cold index of %d events", session.Log.Events()), "s", took...).atMost(1.5),
		figure("viewer", "the same, processor time", "s", cpu...),
		figure("viewer", "memory of the viewer, at most", "MiB", most...).atMost(200),
		figure("viewer", "memory of the viewer afterwards", "MiB", kept...),
	}, nil
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// pageSize is what the page asks for.
const pageSize = 5000

// pages measures listing the whole session, as a browser does it and without compression.
func (b *viewerBench) pages(ctx context.Context, session *synthetic.Session, count int) ([]Figure, error) {
	viewer := process{b.world.Viewer.PID()}
	var figures []Figure
	for _, as := range []encoding{plain, zstd, gzip} {
		var cpu []float64
		for range count {
			before, err := viewer.cpu()
			if err != nil {
				return nil, err
			}
			pages, err := b.list(ctx, session, as)
			if err != nil {
				return nil, err
			}
			after, err := viewer.cpu()
			if err != nil {
				return nil, err
			}
			cpu = append(cpu, float64((after-before).Microseconds())/1000/pages)
		}
		f := figure("viewer", fmt.Sprintf("page of %d rows, processor time, %s", pageSize, as), "ms", cpu...)
		if as == plain {
			f = f.atMost(20)
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// list reads all pages and returns how many full ones they amount to.
func (b *viewerBench) list(ctx context.Context, session *synthetic.Session, as encoding) (float64, error) {
	rows, after := 0, ""
	for {
		body, _, err := b.get(ctx, path(session, fmt.Sprintf("/trajectory?limit=%d%s", pageSize, after)), as)
		if err != nil {
			return 0, err
		}
		page, err := decodePage(body, as)
		if err != nil {
			return 0, err
		}
		rows += len(page.Entries)
		if page.Next == "" {
			return float64(rows) / pageSize, nil
		}
		after = "&after=" + page.Next
	}
}

type page struct {
	Entries []struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	} `json:"entries"`
	Next   string `json:"next"`
	Cursor string `json:"cursor"`
}

// refresh measures asking for what came since, after each of some runs of about a hundred events.
func (b *viewerBench) refresh(ctx context.Context, session *synthetic.Session, count int) ([]Figure, error) {
	cursor, err := b.cursor(ctx, session)
	if err != nil {
		return nil, err
	}
	var took, events []float64
	for range count {
		before := session.Log.Events()
		if err := session.Extend(ctx, 100); err != nil {
			return nil, err
		}
		if err := session.Log.Copy(ctx, b.log); err != nil {
			return nil, err
		}
		body, lasted, err := b.get(ctx, path(session, fmt.Sprintf("/trajectory?limit=%d&after=%s", pageSize, cursor)), plain)
		if err != nil {
			return nil, err
		}
		got, err := decodePage(body, plain)
		if err != nil {
			return nil, err
		}
		if len(got.Entries) == 0 {
			return nil, errors.New("a refresh had nothing new")
		}
		cursor = got.Cursor
		took, events = append(took, float64(lasted.Microseconds())/1000), append(events, float64(session.Log.Events()-before))
	}
	return []Figure{figure("viewer", fmt.Sprintf("refresh after %.0f new events", median(events)), "ms", took...).atMost(20)}, nil
}

func (b *viewerBench) cursor(ctx context.Context, session *synthetic.Session) (string, error) {
	after := ""
	for {
		body, _, err := b.get(ctx, path(session, fmt.Sprintf("/trajectory?limit=%d%s", pageSize, after)), plain)
		if err != nil {
			return "", err
		}
		got, err := decodePage(body, plain)
		if err != nil || got.Next == "" {
			return got.Cursor, err
		}
		after = "&after=" + got.Next
	}
}

// details measures the details of model inputs from all over the session.
func (b *viewerBench) details(ctx context.Context, session *synthetic.Session, _ int) ([]Figure, error) {
	body, _, err := b.get(ctx, path(session, "/trajectory?limit=10000"), plain)
	if err != nil {
		return nil, err
	}
	got, err := decodePage(body, plain)
	if err != nil {
		return nil, err
	}
	var took, size []float64
	const wanted = 200
	for _, entry := range slices.Backward(got.Entries) {
		if entry.Type != "modelInput" || len(took) == wanted {
			continue
		}
		body, lasted, err := b.get(ctx, path(session, "/trajectory/detail?id="+entry.ID), plain)
		if err != nil {
			return nil, err
		}
		took, size = append(took, float64(lasted.Microseconds())/1000), append(size, float64(len(body))/1000)
	}
	if len(took) == 0 {
		return nil, errors.New("the session has no model inputs")
	}
	slices.Sort(took)
	return []Figure{
		figure("viewer", fmt.Sprintf("details of %d model inputs, 95th percentile", len(took)), "ms", took[len(took)*95/100]).atMost(30),
		figure("viewer", "the same, median", "ms", median(took)),
		figure("viewer", "their size", "KB", median(size)),
	}, nil
}

// exported measures the export of the session beside its index.
func (b *viewerBench) exported(ctx context.Context, session *synthetic.Session, _ int) ([]Figure, error) {
	viewer, err := b.restarted(ctx)
	if err != nil {
		return nil, err
	}
	if _, _, err := b.get(ctx, path(session, ""), plain); err != nil {
		return nil, err
	}
	indexed, _, err := viewer.resident()
	if err != nil {
		return nil, err
	}
	e, err := b.download(ctx, viewer, session)
	if err != nil {
		return nil, err
	}
	others, err := b.formats(ctx, session)
	return append([]Figure{
		figure("viewer", fmt.Sprintf("export of %.0f MB", e.megabytes), "MB/s", e.megabytes/e.took.Seconds()).atLeast(60),
		figure("viewer", "memory for it, beside the index", "MiB", mebibytes(max(e.most-indexed, 0))).atMost(64),
	}, others...), err
}

// formats measures the export in the formats of other programs, which have less in them.
func (b *viewerBench) formats(ctx context.Context, session *synthetic.Session) ([]Figure, error) {
	var figures []Figure
	for _, format := range []string{"atif", "otlp-json", "otlp-json&content=true"} {
		size, _, took, err := b.drain(ctx, path(session, "/trajectory/export?format="+format))
		if err != nil {
			return nil, err
		}
		figures = append(figures, figure("viewer", fmt.Sprintf("the same as %s, %.0f MB", format, float64(size)/1e6), "s", took.Seconds()))
	}
	return figures, nil
}

func (b *viewerBench) exportedLarge(ctx context.Context, session *synthetic.Session) ([]Figure, error) {
	viewer, err := b.restarted(ctx)
	if err != nil {
		return nil, err
	}
	e, err := b.download(ctx, viewer, session)
	if err != nil {
		return nil, err
	}
	return []Figure{
		figure("viewer", fmt.Sprintf("export of %.0f MB, large inputs", e.megabytes), "MB/s", e.megabytes/e.took.Seconds()),
		figure("viewer", "memory of the viewer meanwhile, at most", "MiB", mebibytes(e.most)).atMost(150),
	}, nil
}

// download is one export that was read to its end.
type download struct {
	megabytes float64
	took      time.Duration
	most      int64
}

func (b *viewerBench) download(ctx context.Context, viewer process, session *synthetic.Session) (download, error) {
	if err := viewer.forget(); err != nil {
		return download{}, err
	}
	size, last, took, err := b.drain(ctx, path(session, "/trajectory/export"))
	if err != nil {
		return download{}, err
	}
	var end struct {
		Type    string `json:"type"`
		Records int    `json:"records"`
	}
	if err := json.Unmarshal(last, &end); err != nil || end.Type != "complete" || end.Records == 0 {
		return download{}, fmt.Errorf("the export ends with %.100q", last)
	}
	_, most, err := viewer.resident()
	return download{float64(size) / 1e6, took, most}, err
}
