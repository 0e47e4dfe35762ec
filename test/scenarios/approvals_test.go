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

// cmdApprove is "approve RUN [-deny] [-tool T] [-reason R] [-as kim] [-approver kim] [-digest D] [-name N]": waits until a
// call of the run, or one of the tool, waits for a person, and decides about the first one as that user. The decision's
// name is N, or else the call's id.
func cmdApprove(ts *testscript.TestScript, neg bool, args []string) {
	flags := flag.NewFlagSet("approve", flag.ContinueOnError)
	deny := flags.Bool("deny", false, "")
	tool := flags.String("tool", "", "")
	why := flags.String("reason", "", "")
	user := flags.String("as", "kim", "")
	approver := flags.String("approver", "", "")
	digest := flags.String("digest", "", "")
	name := flags.String("name", "", "")
	rest := parse(ts, flags, args)
	if len(rest) != 1 {
		ts.Fatalf("usage: approve RUN [-deny] [-tool T] [-reason R] [-as kim] [-approver kim] [-digest D] [-name N]")
	}
	run, pending := waitPending(ts, rest[0], *tool)
	approval := v1alpha1.ToolApproval{Spec: v1alpha1.ToolApprovalSpec{
		RunRef:     v1alpha1.ApprovalRunRef{Name: run.Name, UID: string(run.UID)},
		ToolCallID: pending.ToolCallID, ArgumentsDigest: pending.ArgumentsDigest, Decision: v1alpha1.DecisionApprove, Reason: *why, Approver: *user,
	}}
	approval.APIVersion, approval.Kind, approval.Name = v1alpha1.GroupVersion.String(), v1alpha1.KindToolApproval, strings.ToLower(pending.ToolCallID)
	if *deny {
		approval.Spec.Decision = v1alpha1.DecisionDeny
	}
	for into, value := range map[*string]string{&approval.Spec.Approver: *approver, &approval.Spec.ArgumentsDigest: *digest, &approval.Name: *name} {
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

// waitPending waits until a call of the run waits for a person, of the tool if one is named.
func waitPending(ts *testscript.TestScript, name, tool string) (v1alpha1.AgentRun, v1alpha1.PendingApproval) {
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
			if tool == "" || pending.Tool == tool {
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
