package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/cas"
)

const (
	// archiveTimeout bounds the archiving of one session. What it got done stays done.
	archiveTimeout = 10 * time.Minute
	// archiveUntil is how many percent below the mark the log is emptied to, so that not every new run begins it again.
	archiveUntil = 10
	// archiveRest is how many intervals pass after a round that found nothing to remove.
	archiveRest = 10
)

// Archives empties the run-event log when it fills: it moves the events of ended runs into archive files, those of the
// sessions that were used least recently first.
type Archives struct {
	// Archive archives one session's ended runs and removes them from the log.
	Archive func(ctx context.Context, scope cas.Scope) (archive.Result, error)
	Fill    Fill
	Reader  client.Reader
	Logger  *slog.Logger
	// Above is the fill in percent from which on it works; 0 for never. Interval is how often it looks.
	Above    int
	Interval time.Duration

	rest int
}

// Fill says how many bytes the run-event log has and how many it may have, 0 for no limit.
type Fill func(ctx context.Context) (used, limit int64, err error)

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (a *Archives) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (a *Archives) Start(ctx context.Context) error {
	if a.Above == 0 {
		return nil
	}
	ticker := time.NewTicker(a.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			a.Logger.Warn("ended runs could not be archived", "error", err)
		}
	}
}

// look archives when the log has reached the mark.
func (a *Archives) look(ctx context.Context) error {
	if a.rest > 0 {
		a.rest--
		return nil
	}
	if reached, err := a.reached(ctx, a.Above); err != nil || !reached {
		return err
	}
	scopes, err := a.sessions(ctx)
	if err != nil {
		return err
	}
	var removed int64
	for _, scope := range scopes {
		removed += a.session(ctx, scope)
		still, err := a.reached(ctx, a.Above-archiveUntil)
		if err != nil || !still {
			return err
		}
	}
	if removed == 0 {
		a.rest = archiveRest
		a.Logger.Warn("the run-event log fills and no ended run is left to archive: enlarge it, or delete sessions")
	}
	return nil
}

func (a *Archives) reached(ctx context.Context, percent int) (bool, error) {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	used, limit, err := a.Fill(bounded)
	return err == nil && filled(used, limit) >= float64(percent)/100 && limit > 0, err
}

// filled is the share of the limit that is used; 0 without a limit.
func filled(used, limit int64) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(used) / float64(limit)
}

// session archives one session and returns how many entries are gone from the log.
func (a *Archives) session(ctx context.Context, scope cas.Scope) int64 {
	bounded, cancel := context.WithTimeout(ctx, archiveTimeout)
	defer cancel()
	result, err := a.Archive(bounded, scope)
	switch {
	case err != nil && ctx.Err() == nil:
		a.Logger.Warn("session not archived", "namespace", scope.Namespace, "session", scope.Session, "error", err)
	case len(result.Files) > 0 || result.Removed > 0:
		a.Logger.Info("session archived", "namespace", scope.Namespace, "session", scope.Session,
			"files", len(result.Files), "entries", result.Entries, "removed", result.Removed)
	}
	return result.Removed
}

// sessions are the histories of all sessions, those first that were used least recently. One that is being deleted is left to
// its purge.
func (a *Archives) sessions(ctx context.Context) ([]cas.Scope, error) {
	var list api.AgentSessionList
	if err := a.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	all := slices.DeleteFunc(slices.Clone(list.Items), func(s api.AgentSession) bool { return !s.DeletionTimestamp.IsZero() })
	slices.SortStableFunc(all, func(x, y api.AgentSession) int { return lastUsed(&x).Compare(lastUsed(&y)) })
	var scopes []cas.Scope
	for i := range all {
		scopes = append(scopes, cas.Scope{Namespace: all[i].Namespace, Session: all[i].HistoryUID()})
	}
	return scopes, nil
}

func lastUsed(s *api.AgentSession) time.Time {
	if s.Status.LastActivityTime != nil {
		return s.Status.LastActivityTime.Time
	}
	return s.CreationTimestamp.Time
}
