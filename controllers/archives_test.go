package controllers

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/cas"
)

// listed is a reader of sessions.
type listed struct {
	client.Reader
	items []api.AgentSession
	err   error
}

func (l listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if sessions, ok := list.(*api.AgentSessionList); ok {
		sessions.Items = l.items
	}
	return l.err
}

// usedAt is a session whose last run event is of that hour; 0 for none, so that its creation counts.
func usedAt(name string, created, hour int) api.AgentSession {
	at := func(h int) metav1.Time { return metav1.NewTime(time.Date(2026, 1, 1, h, 0, 0, 0, time.UTC)) }
	s := api.AgentSession{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name + "-uid"), CreationTimestamp: at(created)}}
	if hour > 0 {
		used := at(hour)
		s.Status.LastActivityTime = &used
	}
	return s
}

func TestTheLogIsEmptiedWhenItFills(t *testing.T) {
	deleted := usedAt("deleted", 1, 1)
	deleted.DeletionTimestamp = &deleted.CreationTimestamp
	adopting := usedAt("adopting", 1, 3)
	adopting.Spec.AdoptUID = "adopted-uid"
	sessions := []api.AgentSession{usedAt("busy", 1, 20), usedAt("old", 1, 2), deleted, usedAt("new", 10, 0), adopting}
	failed := errors.New("no answer")
	cases := map[string]struct {
		above       int
		used, limit int64
		frees       int64
		fillErr     error
		want        []string
		rests       bool
	}{
		"below the mark":                       {above: 70, used: 69, limit: 100},
		"without a limit":                      {above: 70, used: 1 << 40},
		"at the mark, until there is room":     {above: 70, used: 75, limit: 100, frees: 8, want: []string{"old-uid", "adopted-uid"}},
		"one session is enough":                {above: 70, used: 75, limit: 100, frees: 30, want: []string{"old-uid"}},
		"nothing to free: it rests for a time": {above: 70, used: 99, limit: 100, want: []string{"old-uid", "adopted-uid", "new-uid", "busy-uid"}, rests: true},
		"a log that does not answer":           {above: 70, used: 99, limit: 100, fillErr: failed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			used := c.used
			a := &Archives{
				Above: c.above, Logger: slog.New(slog.DiscardHandler), Reader: listed{items: sessions},
				Fill: func(context.Context) (int64, int64, error) { return used, c.limit, c.fillErr },
				Archive: func(_ context.Context, scope cas.Scope) (archive.Result, error) {
					got = append(got, scope.Session)
					used -= c.frees
					if scope.Session == "new-uid" {
						return archive.Result{}, failed // does not keep the others from being archived
					}
					return archive.Result{Removed: c.frees}, nil
				},
			}
			if err := a.look(t.Context()); !errors.Is(err, c.fillErr) {
				t.Errorf("%v, want %v", err, c.fillErr)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("archived (-want +got):\n%s", diff)
			}
			got = nil
			if err := a.look(t.Context()); c.fillErr == nil && err != nil || c.rests && len(got) > 0 {
				t.Errorf("the next look: %v, archived %v", err, got)
			}
		})
	}
}

func TestFillingIsSaidBeforeTheLogIsFull(t *testing.T) {
	var f filling
	var used int64
	var failed error
	fill := func(context.Context) (int64, int64, error) { return used, 1000, failed }
	steps := []struct {
		used    int64
		err     error
		changed bool
		now     bool
	}{
		{used: 840}, {used: 850, changed: true, now: true}, {used: 999, now: true}, {used: 820, now: true},
		{used: 10, err: errors.New("no answer"), now: true}, {used: 799, changed: true}, {used: 820},
	}
	for i, step := range steps {
		used, failed = step.used, step.err
		if changed := f.observe(t.Context(), fill, time.Second); changed != step.changed || f.is() != step.now {
			t.Errorf("step %d: changed %v, filling %v; want %v, %v", i, changed, f.is(), step.changed, step.now)
		}
	}
	if f.observe(t.Context(), nil, time.Second) {
		t.Error("it changes although nobody says how full the log is")
	}
}
