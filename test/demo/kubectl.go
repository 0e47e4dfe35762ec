package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// write puts a file into the demo's folder.
func (s *story) write(name string, raw []byte) error {
	return os.WriteFile(filepath.Join(s.world.Dir, name), raw, 0o600)
}

// kubectl runs the real kubectl in the demo's namespace and shows command and output.
func (s *story) kubectl(ctx context.Context, args ...string) error {
	return s.kubectlWith(ctx, nil, args...)
}

func (s *story) kubectlWith(ctx context.Context, stdin []byte, args ...string) error {
	s.step("$ kubectl %s", strings.Join(args, " "))
	out, err := s.output(s.command(ctx, stdin, args...))
	if err != nil {
		return err
	}
	s.shown = string(out)
	s.say("%s", s.shown)
	return nil
}

func (s *story) command(ctx context.Context, stdin []byte, args ...string) *exec.Cmd {
	command := s.world.Kubectl(ctx, append([]string{"--namespace", namespace}, args...)...)
	command.Dir = s.world.Dir
	if stdin != nil {
		command.Stdin = bytes.NewReader(stdin)
	}
	return command
}

// output runs a command; its error has what kubectl said.
func (s *story) output(command *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("kubectl: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// agentRun is what the demo reads of an AgentRun.
type agentRun struct {
	Metadata struct{ Name string }
	Status   struct {
		Turn, ToolCalls int
		ResultPreview   string
		Conditions      []struct{ Type, Status, Reason, Message string }
	}
}

// runs lists the runs by name.
func (s *story) runs(ctx context.Context) ([]agentRun, error) {
	raw, err := s.world.Client.RESTClient().Get().AbsPath("/apis/agentloop.dev/v1alpha1/namespaces", namespace, "agentruns").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var list struct{ Items []agentRun }
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	sort.Slice(list.Items, func(i, j int) bool { return list.Items[i].Metadata.Name < list.Items[j].Metadata.Name })
	return list.Items, nil
}

func (r agentRun) condition(kind string) (status, reason, message string) {
	for _, c := range r.Status.Conditions {
		if c.Type == kind {
			return c.Status, c.Reason, c.Message
		}
	}
	return "Unknown", "New", ""
}

func (r agentRun) finished() bool {
	status, _, _ := r.condition("Finished")
	return status == "True"
}

func (r agentRun) succeeded() bool {
	status, _, _ := r.condition("Succeeded")
	return status == "True"
}

// describe says in a line where a run is.
func (r agentRun) describe() string {
	_, reason, message := r.condition("Succeeded")
	line := reason
	if message != "" {
		line += " (" + message + ")"
	}
	if r.Status.Turn > 0 {
		line += fmt.Sprintf(", turn %d", r.Status.Turn)
	}
	if r.Status.ToolCalls > 0 {
		line += fmt.Sprintf(", tool calls %d", r.Status.ToolCalls)
	}
	return line
}
