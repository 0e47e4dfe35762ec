package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/pkg/trajectory/atif"
	"github.com/agentloop/agentloop/pkg/trajectory/otlp"
	"github.com/agentloop/agentloop/test/synthetic"
	"github.com/agentloop/agentloop/test/viewer/story"
)

func TestThingsAreMadeAtOnceAndUsedInOrder(t *testing.T) {
	var running, most atomic.Int32
	together := make(chan struct{})
	next := 0
	err := parallel(t.Context(), 100, func(_ context.Context, i int) ([]byte, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		if i == 0 { // the first waits for the second: they are made at once
			<-together
		}
		if i == 1 {
			close(together)
		}
		return []byte(fmt.Sprint(i)), nil
	}, func(made []byte) error {
		if string(made) != fmt.Sprint(next) {
			t.Errorf("%s instead of %d", made, next)
		}
		next++
		return nil
	})
	if err != nil || next != 100 {
		t.Errorf("%d used: %v", next, err)
	}
	if most.Load() > exportParallel+2 {
		t.Errorf("%d at once", most.Load())
	}
}

func TestTheFirstFailureEndsAll(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct{ make, use int }{"making": {5, -1}, "using": {-1, 5}} {
		used := 0
		err := parallel(t.Context(), 100, func(_ context.Context, i int) ([]byte, error) {
			if i == c.make {
				return nil, broken
			}
			return nil, nil
		}, func([]byte) error {
			if used == c.use {
				return broken
			}
			used++
			return nil
		})
		if !errors.Is(err, broken) || used != 5 {
			t.Errorf("%s: %d used, then %v", name, used, err)
		}
	}
}

func TestAnEndedRequestEndsTheRest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	used := 0
	err := parallel(ctx, 1_000_000, func(context.Context, int) ([]byte, error) { return nil, nil }, func([]byte) error {
		if used++; used == 3 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || used > 3+exportParallel+2 {
		t.Errorf("%d used, then %v", used, err)
	}
}

// TestWhatIsMadeAheadIsBounded lets nothing be used until no more is begun: in number, and in bytes.
func TestWhatIsMadeAheadIsBounded(t *testing.T) {
	for name, c := range map[string]struct{ size, most int }{
		"short things": {1, exportAhead + exportParallel + 2}, "long things": {exportHeld, 2*exportParallel + 3},
	} {
		var begun atomic.Int32
		used, ahead := 0, 0
		err := parallel(t.Context(), 200, func(_ context.Context, _ int) ([]byte, error) {
			begun.Add(1)
			return make([]byte, c.size), nil
		}, func([]byte) error {
			used++
			ahead = max(ahead, int(begun.Load())-used)
			return nil
		})
		if err != nil || used != 200 || ahead > c.most {
			t.Errorf("%s: %d were used, up to %d were begun ahead of that, want at most %d: %v", name, used, ahead, c.most, err)
		}
	}
}

// TestMakingAtOnceChangesNothing exports a session of several agents in every format, with parts made at once and one by one.
func TestMakingAtOnceChangesNothing(t *testing.T) {
	store := memstore.New()
	shape := synthetic.Sized(2000, time.Hour)
	shape.Input = 3000
	session, err := synthetic.New(t.Context(), store, cas.Scope{Namespace: "team", Session: story.Session}, shape)
	if err != nil {
		t.Fatal(err)
	}
	log := memlog.New()
	if err := session.Log.Copy(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	reader := trajectory.NewReader(log, store)
	builder := trajectory.NewBuilder(session.Scope)
	if err := reader.Refresh(t.Context(), builder); err != nil {
		t.Fatal(err)
	}
	index := builder.Index()
	for name, export := range map[string]func(each trajectory.Ordered, to io.Writer) (int, error){
		"NDJSON": func(each trajectory.Ordered, to io.Writer) (int, error) {
			return reader.Export(t.Context(), index, trajectory.Header{Session: 1}, each, to)
		},
		"OTLP": func(each trajectory.Ordered, to io.Writer) (int, error) {
			return otlp.Export(t.Context(), reader.Contents(index), otlp.Options{Content: true, Each: each}, to)
		},
		"ATIF": func(each trajectory.Ordered, to io.Writer) (int, error) {
			return atif.Export(t.Context(), reader.Contents(index), atif.Options{Each: each}, to)
		},
	} {
		var alone, together bytes.Buffer
		if n, err := export(trajectory.OneByOne, &alone); err != nil || n == 0 {
			t.Fatalf("%s: %d records, %v", name, n, err)
		}
		if _, err := export(parallel, &together); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(alone.Bytes(), together.Bytes()) {
			t.Errorf("%s: %d bytes one by one, %d other ones at once", name, alone.Len(), together.Len())
		}
	}
}
