package api

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentloop/agentloop/api/v1alpha1"
)

// caller is the name under which the API server knows these tests.
const caller = "admin"

const smallestApproval = `
runRef: {name: r, uid: 7b2f3a52-4c1d-4f0e-9a57-0f6f2c1b8a11}
toolCallID: c1
argumentsDigest: ` + digest + `
decision: Approve
approver: ` + caller

const conditionsOfApproval = `
observedGeneration: 1
conditions:
- {type: Applied, status: "False", reason: Stale, message: "m", observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}
`

func TestToolApprovalCreation(t *testing.T) {
	long := strings.Repeat("x", 1024)
	runCreations(t, v1alpha1.KindToolApproval, smallestApproval, map[string]creation{
		"the smallest decision":       {},
		"a refusal with a reason":     {spec: "decision: Deny\nreason: not on a Friday"},
		"a reason of 1 KiB":           {spec: "reason: " + long},
		"an id with colons":           {spec: `toolCallID: "functions.todo:0"`},
		"no run":                      {spec: "runRef: null", want: "spec.runRef: Required value"},
		"a run without its UID":       {spec: "runRef: {uid: null}", want: "spec.runRef.uid: Required value"},
		"a run with a wrong UID":      {spec: "runRef: {uid: x}", want: "must be the metadata.uid of the run"},
		"a run of another namespace":  {spec: "runRef: {name: x/r}", want: "must be the name of an AgentRun in this namespace"},
		"no call":                     {spec: "toolCallID: null", want: "spec.toolCallID: Required value"},
		"a call without an id":        {spec: "toolCallID: ''", want: "should be at least 1 chars long"},
		"no digest":                   {spec: "argumentsDigest: null", want: "spec.argumentsDigest: Required value"},
		"a digest of another kind":    {spec: "argumentsDigest: md5:d41d8cd98f00b204e9800998ecf8427e", want: "must be the argumentsDigest of the run's status.pendingApprovals"},
		"a digest in capitals":        {spec: "argumentsDigest: sha256:" + strings.Repeat("A", 64), want: "64 hexadecimal digits in lower case"},
		"no decision":                 {spec: "decision: null", want: "spec.decision: Required value"},
		"another decision":            {spec: "decision: Maybe", want: `supported values: "Approve", "Deny"`},
		"a reason of 1 KiB and one":   {spec: "reason: " + long + "x", want: "Too long"},
		"a reason of 1 KiB of Han":    {spec: "reason: " + strings.Repeat("中", 342), want: "is longer than 1024 bytes"},
		"nobody":                      {spec: "approver: null", want: "spec.approver: Required value"},
		"a field that there is not":   {spec: "expires: never", want: `unknown field "spec.expires"`},
		"arguments instead of digest": {spec: "arguments: {}", want: `unknown field "spec.arguments"`},
	})
}

func TestToolApprovalChange(t *testing.T) {
	const want = "a decision cannot be changed: the first one about a call counts"
	runChanges(t, v1alpha1.KindToolApproval, smallestApproval, map[string]change{
		"the same once more":  {before: "reason: good"},
		"another decision":    {after: "decision: Deny", want: want},
		"another approver":    {after: "approver: somebody", want: want},
		"a reason added":      {after: "reason: good", want: want},
		"a reason removed":    {before: "reason: good", after: "reason: null", want: want},
		"another call":        {after: "toolCallID: c2", want: want},
		"another run":         {after: "runRef: {name: s}", want: want},
		"other arguments":     {after: "argumentsDigest: sha256:" + strings.Repeat("b", 64), want: want},
		"a field added to it": {after: "expires: never", want: `unknown field "spec.expires"`},
	})
}

func TestToolApprovalsAreSelectedByRun(t *testing.T) {
	made, err := create(t, object(v1alpha1.KindToolApproval, merge(parse(t, smallestApproval), parse(t, "runRef: {name: chosen.one}"))))
	if err != nil {
		t.Fatal(err)
	}
	for selector, want := range map[string]int{"spec.runRef.name=chosen.one": 1, "spec.runRef.name=chosen": 0} {
		list, err := resource(made.GetKind()).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil || len(list.Items) != want {
			t.Errorf("%s selects %d decisions, want %d (%v)", selector, len(list.Items), want, err)
		}
	}
}

// TestApproverIsTheCaller installs config/admission and decides under names of one's own and of others.
func TestApproverIsTheCaller(t *testing.T) {
	for _, args := range [][]string{
		{"apply", "-f", "../../config/rbac/people.yaml"}, {"apply", "-f", "../../config/admission"}, {"create", "namespace", "decisions"},
		{"-n", "decisions", "create", "rolebinding", "approvers", "--clusterrole=agentloop-approver", "--user=kim@example.com"},
	} {
		if out, err := kubectl(t, args...); err != nil {
			t.Fatal(out)
		}
	}
	defer func() {
		if out, err := kubectl(t, "delete", "-f", "../../config/admission"); err != nil {
			t.Error(out)
		}
	}()
	sample := []string{"-n", "decisions", "create", "--dry-run=server", "-f", "../../config/samples/approval/toolapproval.yaml", "--as"}
	const refused = "spec.approver is kim@example.com, but who decides is tester: write that name there"
	// The API server takes a moment until it heeds a new policy.
	deadline := time.After(30 * time.Second)
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		out, err := kubectl(t, append(sample, "tester", "--as-group", "system:masters")...)
		if err != nil && strings.Contains(out, refused) {
			break
		}
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("a decision in another one's name: %v\n%s", err, out)
		}
	}
	if out, err := kubectl(t, append(sample, "kim@example.com")...); err != nil {
		t.Errorf("a decision in one's own name: %s", out)
	}
	if out, err := kubectl(t, append(sample, "lee")...); err == nil || !strings.Contains(out, `User "lee" cannot create resource "toolapprovals"`) {
		t.Errorf("a decision without the role: %v\n%s", err, out)
	}
}
