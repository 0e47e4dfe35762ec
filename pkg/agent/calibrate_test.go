package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// fakeCalibrations keeps what is learnt in memory, and can be away.
type fakeCalibrations struct {
	known map[ModelKey]budget.Calibration
	err   error
}

func (f *fakeCalibrations) Get(_ context.Context, key ModelKey) (budget.Calibration, error) {
	return f.known[key], f.err
}

func (f *fakeCalibrations) Learn(_ context.Context, key ModelKey, measured budget.ContextBudget, used *message.Usage) (budget.Calibration, error) {
	if f.err != nil {
		return budget.Calibration{}, f.err
	}
	f.known[key] = f.known[key].Observe(measured, used)
	return f.known[key], nil
}

// counts answers with a real input count that is factor times what was estimated.
func counts(w *world, factor float64) reply {
	return func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
		out, err := says("hello")(ctx, req, onDelta)
		real := int64(float64(w.live[len(w.live)-1].Budget.EstimatedInputTokens) * factor)
		out.Message.Usage = &message.Usage{Input: &real, Output: count(5)}
		return out, err
	}
}

// TestCalibration corrects the estimates of a model whose inputs count twice what was estimated: later requests, also of
// other runs, are judged by the corrected count, which stands beside the estimate; a model of another namespace is not.
func TestCalibration(t *testing.T) {
	fitting, refused := Result{runevent.TypeRunFinished, "Completed"}, Result{runevent.TypeRunFailed, ReasonBudgetExceeded}
	cases := map[string]struct {
		off, away bool
		namespace string
		want      Result
	}{
		"it is learnt":                 {want: refused},
		"the session does not want it": {off: true, want: fitting},
		"another namespace":            {namespace: "other", want: fitting},
		"what was learnt is away":      {away: true, want: fitting},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			calibrations := &fakeCalibrations{known: map[ModelKey]budget.Calibration{}}
			deps := w.deps()
			deps.Calibrations = calibrations
			w.model.replies = []reply{counts(w, 2), says("fits")}
			first := w.run("u1", tokens(100))
			first.Config.Calibrate = !tc.off
			if got, err := Execute(t.Context(), deps, first); err != nil || got != fitting {
				t.Fatalf("%+v, %v", got, err)
			}
			if tc.away {
				calibrations.err = errors.New("away")
			}
			// 15,000 tokens fit in 26,304; counted twice they do not.
			second := w.run("u2", tokens(15000))
			second.Config.Calibrate = !tc.off
			if tc.namespace != "" {
				second.Namespace = tc.namespace
			}
			got, err := Execute(t.Context(), deps, second)
			if err != nil || got != tc.want {
				t.Fatalf("%+v, %v; want %+v", got, err, tc.want)
			}
			last := w.live[len(w.live)-1].Budget
			if !last.Fits || last.InputLimit != 26304 {
				t.Errorf("the estimate itself is not what it was: %+v", last)
			}
			if corrected := last.CalibratedFits != nil && !*last.CalibratedFits; corrected != (tc.want == refused) {
				t.Errorf("corrected verdict %v beside %+v", last.CalibratedFits, last)
			}
			if tc.want != refused {
				return
			}
			state, _ := w.state()
			raw, err := w.store.Get(t.Context(), second.Scope(), *state.Run.Terminal.Record)
			if err != nil {
				t.Fatal(err)
			}
			snapshot, err := session.DecodeObject[session.ContextSnapshot](raw)
			if err != nil || snapshot.Assembly.Calibration == nil || snapshot.Assembly.Calibration.Ratio < 1.9 || snapshot.Assembly.Calibration.Observations != 1 {
				t.Errorf("the record has the calibration %+v, %v", snapshot.Assembly.Calibration, err)
			}
		})
	}
}
