package soak

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/agentloop/agentloop/test/faultplan"
	"github.com/agentloop/agentloop/test/faultproxy"
	"github.com/agentloop/agentloop/test/services"
)

// parts are what can fail.
type parts struct {
	workers []*services.Process
	// models is in front of the model server.
	models *faultproxy.Proxy
}

// modelTakes is how long the model thinks about each request.
const modelTakes = 700 * time.Millisecond

// overloaded is how the model's provider says that it is.
var overloaded = faultproxy.Answer{
	Status: 529, Header: http.Header{"Content-Type": {"application/json"}},
	Body: []byte(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
}

// nonsense is an answer of something that is not the model.
var nonsense = faultproxy.Answer{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/html"}}, Body: []byte("<html><body>Please log in.</body></html>")}

// storeFaults and modelFaults are what the two proxies do.
var storeFaults = map[faultplan.Kind]faultproxy.Rule{
	faultplan.StoreRefuses:      {Fault: faultproxy.ResetBefore()},
	faultplan.StoreOverloaded:   {Fault: faultproxy.Refuse(http.StatusServiceUnavailable, "SlowDown")},
	faultplan.StoreForbids:      {Fault: faultproxy.Refuse(http.StatusForbidden, "AccessDenied")},
	faultplan.StoreSlow:         {Fault: faultproxy.Late(300 * time.Millisecond)},
	faultplan.StoreHangs:        {Fault: faultproxy.Hold(nil)},
	faultplan.StoreCutsUploads:  {Match: faultproxy.Method(http.MethodPut), Fault: faultproxy.CutUpload(7)},
	faultplan.StoreLosesAnswers: {Fault: faultproxy.ResetAfter()},
}

var modelFaults = map[faultplan.Kind]faultproxy.Fault{
	faultplan.ModelResets:     faultproxy.ResetBefore(),
	faultplan.ModelBreaksOff:  faultproxy.CutAnswer(300),
	faultplan.ModelEndsEarly:  faultproxy.ShortenAnswer(300),
	faultplan.ModelGarbage:    faultproxy.Fixed(nonsense),
	faultplan.ModelOverloaded: faultproxy.Fixed(overloaded),
	faultplan.ModelHangs:      faultproxy.Hold(nil),
}

// usual is what the model's proxy does while the model is well.
func usual() faultproxy.Rule {
	return faultproxy.Rule{Name: "usual", Fault: faultproxy.Late(modelTakes)}
}

// begin makes a fault happen and returns what makes the part well again.
func (p *parts) begin(f faultplan.Fault) (well func(context.Context) error, err error) {
	if rule, ok := storeFaults[f.Kind]; ok {
		stage.S3Faults.Script(rule)
		return func(context.Context) error { stage.S3Faults.Script(); return nil }, nil
	}
	if fault, ok := modelFaults[f.Kind]; ok {
		p.models.Script(faultproxy.Rule{Fault: fault})
		return func(context.Context) error { p.models.Script(usual()); return nil }, nil
	}
	nodes, gates := stage.Servers.Nodes, stage.NATSGates
	switch f.Kind {
	case faultplan.WorkerKilled:
		return p.workers[f.Part].Start, p.workers[f.Part].Kill()
	case faultplan.WorkerStopped:
		stopped := make(chan error, 1)
		go func() {
			defer close(stopped)
			stopped <- p.workers[f.Part].Stop() // it may take as long as a worker drains and saves
		}()
		return func(ctx context.Context) error { return errors.Join(<-stopped, p.workers[f.Part].Start(ctx)) }, nil
	case faultplan.WorkerStalled:
		if !p.workers[f.Part].Running() {
			return nil, nil // it could not be started again yet
		}
		return func(context.Context) error { return p.workers[f.Part].Resume() }, p.workers[f.Part].Pause()
	case faultplan.ControllersKilled:
		return stage.Manager.Start, stage.Manager.Kill()
	case faultplan.ServerKilled:
		return nodes[f.Part].Start, nodes[f.Part].Kill()
	case faultplan.ServerStalled:
		return func(context.Context) error { return nodes[f.Part].Resume() }, nodes[f.Part].Pause()
	case faultplan.ServersKilled:
		return stage.Servers.Start, stage.Servers.Kill()
	case faultplan.ConnectionsCut:
		return func(context.Context) error { return gates[f.Part].Open() }, gates[f.Part].Shut()
	case faultplan.NATSUnreachable:
		return func(context.Context) error { return each(gates, (*services.Gate).Open) }, each(gates, (*services.Gate).Shut)
	case faultplan.APIServerAway:
		return func(context.Context) error { return stage.APIGate.Open() }, stage.APIGate.Shut()
	}
	return nil, errors.New("there is no fault of that kind: " + string(f.Kind))
}

func each(gates []*services.Gate, do func(*services.Gate) error) error {
	var errs []error
	for _, gate := range gates {
		errs = append(errs, do(gate))
	}
	return errors.Join(errs...)
}

// restored makes a part well, again and again as a kubelet does: a process ends at its start when something that it needs is away.
func restored(ctx context.Context, well func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	for {
		err := well(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// run makes the faults of a plan happen and returns when everything is well again.
func (p *parts) run(t *testing.T, plan []faultplan.Fault) {
	t.Helper()
	begun := time.Now()
	outcomes := make(chan error, len(plan))
	for _, f := range plan {
		<-time.After(time.Until(begun.Add(f.At)))
		well, err := p.begin(f)
		if err != nil {
			t.Errorf("%s: %v", f, err)
		}
		if well == nil {
			outcomes <- nil
			continue
		}
		go func() {
			<-time.After(time.Until(begun.Add(f.At + f.For)))
			outcomes <- restored(t.Context(), well)
		}()
	}
	for range plan {
		if err := <-outcomes; err != nil {
			t.Error(err)
		}
	}
}
