package agent

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// sameState compares session states: digests by value, and an absent list like an empty one.
var sameState = cmp.Options{cmp.Comparer(func(a, b cas.Digest) bool { return a == b }), cmpopts.EquateEmpty()}

// checkFolds compares the session opened at its latest commit with the one that is folded from its first entry on.
func (w *world) checkFolds(t *testing.T) {
	t.Helper()
	folded := session.Empty(runevent.MainAgent)
	if err := Advance(context.Background(), w.log, w.store, w.run("x", "").Stream(), &folded); err != nil {
		t.Fatalf("fold the whole stream: %v", err)
	}
	opened, _ := w.state()
	if diff := cmp.Diff(folded, opened, sameState); diff != "" {
		t.Errorf("session as opened (-folded from the first entry +opened at the commit):\n%s", diff)
	}
}

// overtaken is a log in which others append between a reader's look at the last entry and what it reads next.
type overtaken struct {
	runevent.Log
	meanwhile func()
}

func (o *overtaken) Last(ctx context.Context, stream runevent.Stream) (runevent.Record, error) {
	last, err := o.Log.Last(ctx, stream)
	o.meanwhile()
	return last, err
}

// TestLoadBesideAppender opens a session while another worker commits to it: what is opened is the session at its new
// end, or an earlier one that can be moved on to it.
func TestLoadBesideAppender(t *testing.T) {
	cases := map[string]struct {
		before, meanwhile []string
		// want are the ended runs that the opened session knows.
		want []string
	}{
		"the first run of a session":     {meanwhile: []string{"u1"}},
		"one more run":                   {before: []string{"u1"}, meanwhile: []string{"u2"}, want: []string{"u1", "u2"}},
		"several runs and their commits": {before: []string{"u1"}, meanwhile: []string{"u2", "u3"}, want: []string{"u1", "u2", "u3"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			execute := func(uids []string) {
				for _, uid := range uids {
					w.model.replies = []reply{says("answer to " + uid)}
					if got, err := w.execute(context.Background(), w.run(uid, "hi")); err != nil || got != completed {
						t.Fatalf("%s: %+v, %v", uid, got, err)
					}
				}
			}
			execute(tc.before)
			log := &overtaken{Log: w.log, meanwhile: func() { execute(tc.meanwhile) }}
			stream := w.run("x", "").Stream()
			opened, err := LoadState(context.Background(), log, w.store, stream)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, opened.Recent, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("ended runs (-want +got):\n%s", diff)
			}
			if err := Advance(context.Background(), w.log, w.store, stream, &opened); err != nil {
				t.Fatal(err)
			}
			want, _ := w.state()
			if diff := cmp.Diff(want, opened, sameState); diff != "" {
				t.Errorf("session at its end (-want +got):\n%s", diff)
			}
			w.checkFolds(t)
		})
	}
}
