package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/agentloop/agentloop/test/mcpserver"
	"github.com/agentloop/agentloop/test/world"
)

//go:embed objects
var objects embed.FS

// The names in objects.
const (
	namespace   = "demo"
	sessionName = "trip"
	firstRun    = "compare"
	secondRun   = "pack"
	reader      = "trajectory-reader"
)

// How long the two runs may take altogether, and how long nothing new may be heard of them until that is said.
const (
	runsLimit = 3 * time.Minute
	silence   = 10 * time.Second
	pollEvery = 300 * time.Millisecond
)

// story is what the demo shows on a world.
type story struct {
	*screen
	world *world.World
	model model
	check bool
	// shown is what kubectl printed last.
	shown string
}

// tell shows everything in order, then waits for the user or checks what was shown.
func (s *story) tell(ctx context.Context) error {
	if s.model.scripted {
		script, err := objects.ReadFile("objects/model.yaml")
		if err != nil {
			return err
		}
		if _, err := s.world.Models.LoadYAML(script, ""); err != nil {
			return fmt.Errorf("load the model's script: %w", err)
		}
		s.model.BaseURL = s.world.ModelsURL
	}
	if err := s.world.Namespace(ctx, namespace); err != nil {
		return err
	}
	// Whoever uses the kubeconfig afterwards looks for what the demo applied.
	if _, err := s.output(s.world.Kubectl(ctx, "config", "set-context", "--current", "--namespace="+namespace)); err != nil {
		return err
	}
	if err := s.apply(ctx); err != nil {
		return err
	}
	ended, err := s.await(ctx)
	if err != nil {
		return err
	}
	seen := evidence{runs: ended}
	if err := s.tables(ctx, &seen); err != nil {
		return err
	}
	if err := s.answers(ctx, &seen); err != nil {
		return err
	}
	if s.check {
		return s.checkAll(ctx, seen)
	}
	s.farewell(&seen)
	<-ctx.Done()
	fmt.Fprintln(s.out)
	return nil
}

// apply hands the objects to the API server, as a user would.
func (s *story) apply(ctx context.Context) error {
	s.title("Objects")
	secret, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata":   map[string]any{"name": "model-key", "labels": map[string]string{"agentloop.dev/credential": "true"}},
		"stringData": map[string]string{"api-key": s.model.key},
	})
	if err != nil {
		return err
	}
	// Server-side: the other way kubectl copies the whole object, key and all, into an annotation.
	if err := s.kubectlWith(ctx, secret, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	for _, name := range []string{"provider", "session", "runs", "access"} {
		if err := s.applyFile(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// applyFile renders one of the objects into the demo's folder, where the user can read it, and applies it.
func (s *story) applyFile(ctx context.Context, name string) error {
	rendered, err := render(name, s.model, s.world.ToolsURL+mcpserver.Path)
	if err != nil {
		return err
	}
	file := name + ".yaml"
	if err := s.write(file, rendered); err != nil {
		return err
	}
	return s.kubectl(ctx, "apply", "-f", file)
}

// render fills model and tool server into one of the objects.
func render(name string, m model, toolsURL string) ([]byte, error) {
	raw, err := objects.ReadFile("objects/" + name + ".yaml")
	if err != nil {
		return nil, err
	}
	page, err := template.New(name).Funcs(template.FuncMap{"json": quote}).Parse(string(raw))
	if err != nil {
		return nil, err
	}
	var rendered bytes.Buffer
	values := struct {
		model
		ToolsURL string
	}{m, toolsURL}
	err = page.Execute(&rendered, values)
	return rendered.Bytes(), err
}

// quote writes a string so that YAML takes it for one.
func quote(text string) (string, error) {
	raw, err := json.Marshal(text)
	return string(raw), err
}

// await follows both runs until they have ended.
func (s *story) await(ctx context.Context) ([]agentRun, error) {
	s.title("At work")
	ctx, cancel := context.WithTimeoutCause(ctx, runsLimit, errors.New("the runs did not end in time"))
	defer cancel()
	told, last := map[string]string{}, time.Now()
	for {
		runs, err := s.runs(ctx)
		if err != nil {
			return nil, errors.Join(context.Cause(ctx), err)
		}
		ended := 0
		for _, r := range runs {
			if now := r.describe(); now != told[r.Metadata.Name] {
				s.step("run %s: %s", r.Metadata.Name, now)
				told[r.Metadata.Name], last = now, time.Now()
			}
			if r.finished() {
				ended++
			}
		}
		if ended == 2 {
			return runs, nil
		}
		if time.Since(last) > silence {
			s.step("waiting: %d of %d runs have ended", ended, len(runs))
			last = time.Now()
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tables shows what kubectl says.
func (s *story) tables(ctx context.Context, seen *evidence) error {
	s.title("What kubectl shows")
	if err := s.kubectl(ctx, "get", "mprov,asess,arun"); err != nil {
		return err
	}
	seen.table = s.shown
	if err := s.kubectl(ctx, "get", "arun", "-o", "wide"); err != nil {
		return err
	}
	seen.wide = s.shown
	if err := s.kubectl(ctx, "get", "arun", firstRun, "-o", "jsonpath={.status.resultPreview}"); err != nil {
		return err
	}
	seen.preview = s.shown
	return nil
}

// answers shows the conversation as the viewer's API tells it.
func (s *story) answers(ctx context.Context, seen *evidence) error {
	s.title("The conversation, from the viewer")
	command := s.world.Kubectl(ctx, "--namespace", namespace, "create", "token", reader, "--duration", "3h")
	token, err := command.Output()
	if err != nil {
		return fmt.Errorf("kubectl create token %s: %w", reader, err)
	}
	seen.viewer = viewer{base: s.world.ViewerURL, token: strings.TrimSpace(string(token)), session: namespace + ":" + sessionName}
	conversation, err := seen.viewer.messages(ctx)
	if err != nil {
		return err
	}
	seen.conversation = conversation
	for _, m := range conversation {
		who := map[string]string{"toolResult": "tool"}[m.Role]
		if who == "" {
			who = m.Role
		}
		lines := []string{}
		for _, b := range m.Content {
			lines = append(lines, b.line())
		}
		if m.ErrorMessage != "" {
			lines = append(lines, "(no answer) "+m.ErrorMessage)
		}
		for _, line := range slices.DeleteFunc(lines, func(line string) bool { return line == "" }) {
			s.say("%-10s %s", who, strings.ReplaceAll(wrap(line, 96), "\n", "\n"+strings.Repeat(" ", 11)))
			who = ""
		}
	}
	return nil
}

// farewell tells the user where to look.
func (s *story) farewell(seen *evidence) {
	s.title("Look at it")
	s.say("The trajectory: every model input, thought, tool call and answer, as it was recorded")
	s.say("  %s", s.world.ViewerURL+trajectoryPath)
	s.say("Sign in with this token, which may read the trajectories of the namespace %s for three hours:", namespace)
	fmt.Fprintf(s.out, "\n%s\n\n", seen.viewer.token)
	s.say("In another terminal:")
	s.say("  export KUBECONFIG=%s PATH=%s:$PATH", s.world.Kubeconfig, s.world.Assets)
	s.say("  kubectl get arun -w")
	s.say("The objects that were applied, and the logs, are in %s.", s.world.Dir)
	if failed := seen.failed(); failed != "" {
		s.say("\nNot everything went well: %s", failed)
	}
	fmt.Fprintln(s.out)
	s.step("ready; Ctrl-C stops everything and removes it")
}
