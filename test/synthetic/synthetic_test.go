package synthetic_test

import (
	"context"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/synthetic"
)

var scope = cas.Scope{Namespace: "demo", Session: "5f9f5c1e-8d0f-4a5e-9d5c-2f1d8a4b7c6d"}

// read makes a session up and reads it.
func read(t *testing.T, shape synthetic.Shape) (*synthetic.Session, *trajectory.Reader, *trajectory.Index) {
	t.Helper()
	store := memstore.New()
	made, err := synthetic.New(context.Background(), store, scope, shape)
	if err != nil {
		t.Fatal(err)
	}
	reader := trajectory.NewReader(made.Log, store)
	b := trajectory.NewBuilder(scope)
	if err := reader.Refresh(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	return made, reader, b.Index()
}

func TestSizes(t *testing.T) {
	for _, span := range []time.Duration{time.Second, time.Hour, 72 * time.Hour} {
		for _, events := range []int{10, 100, 1000, 20_000} {
			shape := synthetic.Sized(events, span)
			shape.Input = 2000
			made, _, index := read(t, shape)
			if got := made.Log.Events(); got < events*6/10 || got > events*14/10 {
				t.Errorf("%d events in %s: made %d", events, span, got)
			}
			if len(index.Notices) > 0 {
				t.Errorf("%d events in %s: notice %v", events, span, index.Notices[0])
			}
			timed, _ := index.All()
			took := time.Duration(timed[len(timed)-1].CapturedAt-timed[0].CapturedAt) * time.Microsecond
			if took > span || took < span*9/10 {
				t.Errorf("%d events in %s: they take %s", events, span, took)
			}
		}
	}
}

func TestDenseSessionsHaveThatManyEntries(t *testing.T) {
	_, _, index := read(t, synthetic.Dense(20_000, time.Hour))
	if listed := index.Counts.Entries - index.Counts.Hidden; listed < 18_000 || listed > 22_000 {
		t.Errorf("%d listed entries", listed)
	}
}

func TestEveryInputIsWhatItsPartsMake(t *testing.T) {
	shape := synthetic.Sized(3000, time.Hour)
	shape.Input = 30_000
	made, reader, index := read(t, shape)
	timed, _ := index.All()
	inputs, large := 0, 0
	for _, entry := range timed {
		detail, err := reader.Detail(context.Background(), index, entry.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(detail.Notices) > 0 {
			t.Fatalf("%s: %v", entry.ID, detail.Notices)
		}
		if entry.Type != trajectory.TypeModelInput {
			continue
		}
		inputs++
		if !detail.Input.Verified || detail.Input.System.Provenance != trajectory.ProvenanceVerified {
			t.Errorf("%s: verified %v, %s", entry.ID, detail.Input.Verified, detail.Input.System.Provenance)
		}
		if detail.Input.InputSize > 25_000 && detail.Input.InputSize < 40_000 {
			large++
		}
	}
	if inputs != made.Inputs || large < inputs/2 {
		t.Errorf("%d inputs of %d, %d of the wanted size", inputs, made.Inputs, large)
	}
}

func TestWhatAShapeAsksToBeWrong(t *testing.T) {
	shape := synthetic.Sized(1000, time.Hour)
	shape.Input, shape.Runs, shape.Untimed, shape.LoseEvery, shape.Skew = 2000, 4, 1, 50, time.Minute
	_, _, index := read(t, shape)
	if index.Counts.Untimed == 0 {
		t.Error("every entry has a time")
	}
	gaps := 0
	for _, notice := range index.Notices {
		if notice.Code == trajectory.CodeGap {
			gaps++
		}
	}
	if gaps == 0 {
		t.Errorf("nothing was lost: %v", index.Notices)
	}
	if first := index.Agents[1].StartedAt; first >= trajectory.Time(shape.Begin.UnixMicro()) {
		t.Error("the clock of the second agent is not behind")
	}
}

func TestIdleSessionsWorkInBursts(t *testing.T) {
	shape := synthetic.Sized(1000, time.Hour)
	shape.Input, shape.Idle = 2000, true
	_, _, index := read(t, shape)
	timed, _ := index.All()
	gaps := 0
	for i := 1; i < len(timed); i++ {
		if timed[i].CapturedAt-timed[i-1].CapturedAt > trajectory.Time(10*time.Minute/time.Microsecond) {
			gaps++
		}
	}
	if gaps != 4 {
		t.Errorf("%d long gaps", gaps)
	}
}

func TestSessionsGrowAndCanBeCopied(t *testing.T) {
	shape := synthetic.Sized(300, time.Hour)
	shape.Input = 2000
	made, reader, index := read(t, shape)
	before := index.Counts.Entries
	if err := made.Extend(context.Background(), 100); err != nil {
		t.Fatal(err)
	}
	b := trajectory.NewBuilder(scope)
	if err := reader.Refresh(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	if after := b.Index(); after.Counts.Entries <= before || len(after.Notices) > 0 {
		t.Errorf("%d entries after %d, notices %v", after.Counts.Entries, before, after.Notices)
	}
	log := memlog.New()
	if err := made.Log.Copy(context.Background(), log); err != nil {
		t.Fatal(err)
	}
	ends, err := log.Streams(context.Background(), scope.Namespace, scope.Session)
	if err != nil || len(ends) != shape.Agents {
		t.Errorf("%d streams: %v", len(ends), err)
	}
}

func TestTheSameShapeGivesTheSameBytes(t *testing.T) {
	shape := synthetic.Sized(300, time.Hour)
	one, _, _ := read(t, shape)
	two, _, _ := read(t, shape)
	ends, err := one.Log.Streams(context.Background(), scope.Namespace, scope.Session)
	if err != nil {
		t.Fatal(err)
	}
	others, err := two.Log.Streams(context.Background(), scope.Namespace, scope.Session)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ends {
		if ends[i].Head.Digest != others[i].Head.Digest {
			t.Errorf("%s differs", ends[i].Stream)
		}
	}
}

func TestBadShapes(t *testing.T) {
	if _, err := synthetic.New(context.Background(), memstore.New(), scope, synthetic.Shape{}); err == nil {
		t.Error("a shape of nothing is a session")
	}
}
