package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agentloop/agentloop/api/v1alpha1"
)

// cmdApprove is "approve RUN [-deny] [-tool T|-call C] [-reason R] [-as kim] [-name N]": waits until a call of the run waits
// for a person, of that tool or with that id if one is named, and decides about the first one as that user. The decision's
// name is N, or else the call's id. -agent A stands for the first run of a subagent. -approver, -digest, -id and -uid put something else into the decision than what is right.
func cmdApprove(ts *testscript.TestScript, neg bool, args []string) {
	flags := flag.NewFlagSet("approve", flag.ContinueOnError)
	deny := flags.Bool("deny", false, "")
	tool := flags.String("tool", "", "")
	call := flags.String("call", "", "")
	why := flags.String("reason", "", "")
	user := flags.String("as", "kim", "")
	approver := flags.String("approver", "", "")
	digest := flags.String("digest", "", "")
	id := flags.String("id", "", "")
	uid := flags.String("uid", "", "")
	agent := flags.String("agent", "", "")
	name := flags.String("name", "", "")
	rest := parse(ts, flags, args)
	if *agent != "" {
		rest = append(rest, runOf(ts, *agent))
	}
	if len(rest) != 1 {
		ts.Fatalf("usage: approve RUN|-agent A [-deny] [-tool T|-call C] [-reason R] [-as kim] [-name N]")
	}
	run, pending := waitPending(ts, rest[0], func(p v1alpha1.PendingApproval) bool {
		return (*tool == "" || p.Tool == *tool) && (*call == "" || p.ToolCallID == *call)
	})
	approval := v1alpha1.ToolApproval{Spec: v1alpha1.ToolApprovalSpec{
		RunRef:     v1alpha1.ApprovalRunRef{Name: run.Name, UID: string(run.UID)},
		ToolCallID: pending.ToolCallID, ArgumentsDigest: pending.ArgumentsDigest, Decision: v1alpha1.DecisionApprove, Reason: *why, Approver: *user,
	}}
	approval.APIVersion, approval.Kind, approval.Name = v1alpha1.GroupVersion.String(), v1alpha1.KindToolApproval, strings.ToLower(pending.ToolCallID)
	if *deny {
		approval.Spec.Decision = v1alpha1.DecisionDeny
	}
	for into, value := range map[*string]string{
		&approval.Spec.Approver: *approver, &approval.Spec.ArgumentsDigest: *digest, &approval.Spec.ToolCallID: *id, &approval.Spec.RunRef.UID: *uid, &approval.Name: *name,
	} {
		if value != "" {
			*into = value
		}
	}
	raw, err := json.Marshal(approval)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ts.Check(shared.Approver(ctx, ts.Getenv("NS"), "kim"))
	command := shared.Kubectl(ctx, "--namespace", ts.Getenv("NS"), "--as", *user, "create", "-f", "-")
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(raw), &stdout, &stderr
	err = command.Run()
	outcome(ts, neg, "approve "+strings.Join(args, " "), stdout.String(), stderr.String(), err)
}

// runOf waits for a run of a subagent and returns its name.
func runOf(ts *testscript.TestScript, agent string) string {
	var name string
	ok := wait(time.Minute, func() bool {
		out, err := shared.Kubectl(context.Background(), "--namespace", ts.Getenv("NS"), "get", "agentruns", "--field-selector", "spec.agent="+agent, "-o", "name").Output()
		name, _, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
		name = strings.TrimPrefix(name, "agentrun.agentloop.dev/")
		return err == nil && name != ""
	})
	if !ok {
		ts.Fatalf("there is no run of the subagent %s after a minute", agent)
	}
	return name
}

// waitPending waits until a wanted call of the run waits for a person.
func waitPending(ts *testscript.TestScript, name string, wanted func(v1alpha1.PendingApproval) bool) (v1alpha1.AgentRun, v1alpha1.PendingApproval) {
	var run v1alpha1.AgentRun
	var found v1alpha1.PendingApproval
	var raw string
	ok := wait(time.Minute, func() bool {
		_, raw = get(ts, "agentrun", name)
		run = v1alpha1.AgentRun{}
		if raw == "" || json.Unmarshal([]byte(raw), &run) != nil {
			return false
		}
		for _, pending := range run.Status.PendingApprovals {
			if wanted(pending) {
				found = pending
				return true
			}
		}
		return false
	})
	if !ok {
		ts.Fatalf("no call of run %s waits for a person after a minute:\n%s", name, raw)
	}
	return run, found
}
