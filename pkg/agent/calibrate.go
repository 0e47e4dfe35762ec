package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/session"
)

// ModelKey names a model whose real counts are learnt: providers of the same name in two namespaces are two.
type ModelKey struct{ Namespace, Provider, Model string }

// Calibrations keeps what is known of models' real input counts, for all workers.
//
// Learn takes what a response counted into account and returns what is known then; several workers may do so at once, and
// no observation is lost. Both may fail and are never waited for long: without them estimates are just not corrected.
type Calibrations interface {
	Get(ctx context.Context, key ModelKey) (budget.Calibration, error)
	Learn(ctx context.Context, key ModelKey, measured budget.ContextBudget, used *message.Usage) (budget.Calibration, error)
}

// calibrationTimeout bounds the reading and the writing of a calibration.
const calibrationTimeout = 3 * time.Second

func keyOf(namespace string, model provider.Model) ModelKey {
	return ModelKey{Namespace: namespace, Provider: model.Provider, Model: model.ID}
}

// calibrated reads what is known of the run's model. A run that cannot learn it goes on with plain estimates.
func (l *loop) calibrated(ctx context.Context) {
	if !l.cfg.Calibrate || l.deps.Calibrations == nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, calibrationTimeout)
	defer cancel()
	known, err := l.deps.Calibrations.Get(bounded, keyOf(l.run.Namespace, l.cfg.Model))
	if err != nil {
		l.deps.Logger.Warn("calibration not read, estimates are not corrected", "run", l.run.UID, "error", err)
		return
	}
	l.calibration = known
}

// resumed takes up the calibration under which a lost worker had summaries written that no checkpoint has been made of yet.
// What has been learnt since would cut and frame the conversation in another way, and the same summaries would have to be
// asked for again. The next main request's count is learnt as ever.
func (l *loop) resumed(ctx context.Context) error {
	if !l.cfg.Calibrate || l.state.Run == nil {
		return nil
	}
	for _, ref := range l.state.Run.Summaries { // all of them were asked for under the same: only main requests teach
		action, err := object[session.ModelAction](ctx, l, ref)
		if err != nil {
			return fmt.Errorf("read a stored summary: %w", err)
		}
		asked, err := object[session.ContextSnapshot](ctx, l, action.ContextRef)
		if err != nil {
			return fmt.Errorf("read what a stored summary was asked with: %w", err)
		}
		if known := asked.Assembly.Calibration; known != nil {
			l.calibration = *known
		}
		return nil
	}
	return nil
}

// learn takes a main request's real count into account.
func (l *loop) learn(ctx context.Context, measured budget.ContextBudget, used *message.Usage) {
	if !l.cfg.Calibrate || l.deps.Calibrations == nil || used == nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, calibrationTimeout)
	defer cancel()
	known, err := l.deps.Calibrations.Learn(bounded, keyOf(l.run.Namespace, l.cfg.Model), measured, used)
	if err != nil {
		l.deps.Logger.Warn("calibration not written", "run", l.run.UID, "error", err)
		known = l.calibration.Observe(measured, used)
	}
	l.calibration = known
}
