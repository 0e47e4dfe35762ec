package trajectory_test

import (
	"context"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/synthetic"
)

// counted counts bytes.
type counted int64

func (c *counted) Write(data []byte) (int, error) {
	*c += counted(len(data))
	return len(data), nil
}

// made is a session of ten thousand events with inputs of 200 KB.
func made(b *testing.B) (*synthetic.Session, *trajectory.Reader, *trajectory.Index) {
	b.Helper()
	store := memstore.New()
	session, err := synthetic.New(context.Background(), store, cas.Scope{Namespace: "demo", Session: "5f9f5c1e-8d0f-4a5e-9d5c-2f1d8a4b7c6d"}, shape())
	if err != nil {
		b.Fatal(err)
	}
	reader := trajectory.NewReader(session.Log, store)
	return session, reader, build(b, session, reader)
}

func shape() synthetic.Shape {
	shape := synthetic.Sized(10_000, time.Hour)
	shape.Agents = 2
	shape.Runs *= 10
	return shape
}

func build(b *testing.B, session *synthetic.Session, reader *trajectory.Reader) *trajectory.Index {
	b.Helper()
	builder := trajectory.NewBuilder(session.Scope)
	if err := reader.Refresh(context.Background(), builder); err != nil {
		b.Fatal(err)
	}
	return builder.Index()
}

func BenchmarkColdIndex(b *testing.B) {
	session, reader, _ := made(b)
	b.SetBytes(session.Log.Bytes())
	b.ReportAllocs()
	for b.Loop() {
		build(b, session, reader)
	}
	b.ReportMetric(float64(session.Log.Events()), "events/op")
}

func BenchmarkPage(b *testing.B) {
	_, _, index := made(b)
	b.ReportAllocs()
	var raw []byte
	for b.Loop() {
		page, err := index.Page("", 5000)
		if err != nil {
			b.Fatal(err)
		}
		raw, err = trajectory.EncodeListing(raw[:0], struct{}{}, page.Entries, page.Untimed)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(raw)))
	}
}

func BenchmarkDetailOfAnInput(b *testing.B) {
	_, reader, index := made(b)
	timed, _ := index.All()
	var inputs []string
	for _, entry := range timed {
		if entry.Type == trajectory.TypeModelInput {
			inputs = append(inputs, entry.ID)
		}
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		detail, err := reader.Detail(context.Background(), index, inputs[len(inputs)-1-n%50], 0)
		if err != nil {
			b.Fatal(err)
		}
		raw, err := trajectory.Encode(detail)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(raw)))
	}
}

func BenchmarkExport(b *testing.B) {
	_, reader, index := made(b)
	b.ReportAllocs()
	for b.Loop() {
		var size counted
		if _, err := reader.Export(context.Background(), index, trajectory.Header{Session: struct{}{}}, trajectory.OneByOne, &size); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(size))
	}
}
