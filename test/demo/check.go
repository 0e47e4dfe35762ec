package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// evidence is what the demo showed, kept for the check.
type evidence struct {
	runs                 []agentRun
	table, wide, preview string
	viewer               viewer
	conversation         []message
}

// failed names the runs that did not succeed; empty when all did.
func (e evidence) failed() string {
	var out []string
	for _, r := range e.runs {
		if !r.succeeded() {
			out = append(out, fmt.Sprintf("run %s ended as %s", r.Metadata.Name, r.describe()))
		}
	}
	return strings.Join(out, "; ")
}

// checkAll checks what was shown, each point for itself, and fails when one does.
func (s *story) checkAll(ctx context.Context, seen evidence) error {
	s.title("Check")
	checks := []struct {
		name string
		run  func(context.Context, evidence) (string, error)
	}{
		{"both runs succeeded", s.checkRuns},
		{"the tables show the objects", s.checkTables},
		{"the answers are there", s.checkAnswers},
		{"the second run was given the conversation of the first", s.checkContinuation},
		{"the export is whole", s.checkExport},
		{"the page and what it loads are served", s.checkPage},
		{"without a token nothing is shown", s.checkAnonymous},
	}
	var errs []error
	for _, c := range checks {
		found, err := c.run(ctx, seen)
		if err != nil {
			s.step("FAILED  %s: %v", c.name, err)
			errs = append(errs, fmt.Errorf("check that %s: %w", c.name, err))
			continue
		}
		s.step("ok      %s: %s", c.name, found)
	}
	return errors.Join(errs...)
}

func (s *story) checkRuns(_ context.Context, seen evidence) (string, error) {
	if len(seen.runs) != 2 {
		return "", fmt.Errorf("there are %d runs, want 2", len(seen.runs))
	}
	if failed := seen.failed(); failed != "" {
		return "", errors.New(failed)
	}
	turns, calls := 0, 0
	for _, r := range seen.runs {
		turns, calls = turns+r.Status.Turn, calls+r.Status.ToolCalls
	}
	if s.model.scripted && (turns != 5 || calls != 4) {
		return "", fmt.Errorf("%d turns and %d tool calls, the script has 5 and 4", turns, calls)
	}
	return fmt.Sprintf("%d turns, %d tool calls", turns, calls), nil
}

func (s *story) checkTables(_ context.Context, seen evidence) (string, error) {
	for _, want := range []string{"modelprovider.agentloop.dev/models", "agentsession.agentloop.dev/" + sessionName, "agentrun.agentloop.dev/" + firstRun, "agentrun.agentloop.dev/" + secondRun} {
		if !strings.Contains(seen.table, want) {
			return "", fmt.Errorf("the table has no %s:\n%s", want, seen.table)
		}
	}
	for _, want := range []string{firstRun, secondRun, "worker-1"} {
		if !strings.Contains(seen.wide, want) {
			return "", fmt.Errorf("the wide table has no %s:\n%s", want, seen.wide)
		}
	}
	return "a provider, a session and two runs", nil
}

// The ends of the scripted answers, as objects/model.yaml has them.
const (
	scriptedFirst  = "so Porto is 7 degrees warmer. Bergen has clear skies, while there is light rain in Porto."
	scriptedSecond = "since it rains in Porto although it is 7 degrees warmer there, an umbrella."
)

func (s *story) checkAnswers(_ context.Context, seen evidence) (string, error) {
	var answers []string
	for _, m := range seen.conversation {
		if m.Role == "assistant" && !m.calls() {
			answers = append(answers, m.text())
		}
	}
	if len(answers) != 2 {
		return "", fmt.Errorf("the conversation has %d answers, want 2", len(answers))
	}
	if seen.preview == "" || !strings.HasPrefix(answers[0], strings.TrimSpace(seen.preview)) {
		return "", fmt.Errorf("status.resultPreview is %q, the answer %q", seen.preview, answers[0])
	}
	if s.model.scripted && (!strings.HasSuffix(answers[0], scriptedFirst) || !strings.HasSuffix(answers[1], scriptedSecond)) {
		return "", fmt.Errorf("they are not the script's: %q", answers)
	}
	if notes := s.world.Tools.Effects(""); s.model.scripted && len(notes) != 1 {
		return "", fmt.Errorf("%d notes were written, want 1", len(notes))
	}
	return fmt.Sprintf("%d messages", len(seen.conversation)), nil
}

// checkContinuation looks at the first model input of the second run: everything that the first run said is in it.
func (s *story) checkContinuation(ctx context.Context, seen evidence) (string, error) {
	entries, err := seen.viewer.trajectory(ctx)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Type != "modelInput" || e.Run.Name != secondRun {
			continue
		}
		fixed, err := seen.viewer.detail(ctx, e.ID)
		if err != nil {
			return "", err
		}
		return continues(fixed, seen.conversation)
	}
	return "", fmt.Errorf("no model input of run %s among %d entries", secondRun, len(entries))
}

// continues compares an input with the conversation: its messages from history are the conversation's first ones, up to
// the second prompt.
func continues(fixed input, conversation []message) (string, error) {
	if !fixed.Verified {
		return "", errors.New("the viewer could not verify the input")
	}
	var history []message
	for _, m := range fixed.Messages {
		if m.Source.Type == "history" {
			history = append(history, m.Message)
		}
	}
	prompts := 0
	for i, m := range history {
		if i >= len(conversation) || m.Role != conversation[i].Role || m.text() != conversation[i].text() {
			return "", fmt.Errorf("message %d of the input is %s %q, not that of the conversation", i, m.Role, m.text())
		}
		if m.Role == "user" {
			prompts++
		}
	}
	if prompts != 2 || history[len(history)-1].Role != "user" {
		return "", fmt.Errorf("the input has %d prompts of history and ends with %d messages", prompts, len(history))
	}
	return fmt.Sprintf("its input has %d messages, %d of them from the conversation", len(fixed.Messages), len(history)), nil
}

func (s *story) checkExport(ctx context.Context, seen evidence) (string, error) {
	entries, err := seen.viewer.export(ctx)
	if err != nil {
		return "", err
	}
	if entries == 0 {
		return "", errors.New("it has no entries")
	}
	return fmt.Sprintf("%d entries and the line that completes them", entries), nil
}

func (s *story) checkPage(ctx context.Context, seen evidence) (string, error) {
	assets, err := seen.viewer.page(ctx, trajectoryPath)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s with %d files", trajectoryPath, assets), nil
}

func (s *story) checkAnonymous(ctx context.Context, seen evidence) (string, error) {
	nobody := viewer{base: seen.viewer.base, session: seen.viewer.session}
	if _, _, err := nobody.get(ctx, nobody.api("/trajectory"), http.StatusUnauthorized); err != nil {
		return "", err
	}
	return "401", nil
}
