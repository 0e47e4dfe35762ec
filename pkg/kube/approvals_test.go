package kube

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
)

var digest = cas.Of([]byte(`{"n":1}`))

// decided is a decision about a call of the run r, made so many seconds after created.
func decided(name string, after int, change ...func(*api.ToolApproval)) *api.ToolApproval {
	a := &api.ToolApproval{ObjectMeta: meta(name), Spec: api.ToolApprovalSpec{
		RunRef: api.ApprovalRunRef{Name: "r", UID: "run-uid"}, ToolCallID: "c1", ArgumentsDigest: digest.String(), Decision: api.DecisionApprove, Approver: "kim",
	}}
	a.UID, a.CreationTimestamp = types.UID("uid-"+name), metav1.NewTime(created.Add(time.Duration(after)*time.Second))
	for _, c := range change {
		c(a)
	}
	return a
}

func TestDecisions(t *testing.T) {
	objects := []client.Object{
		decided("b", 5), decided("a", 5), decided("z", 1, func(a *api.ToolApproval) { a.Spec.Decision, a.Spec.Reason = api.DecisionDeny, "no" }),
		decided("earlier", 0, func(a *api.ToolApproval) { a.Spec.RunRef.UID = "uid-of-an-earlier-one" }),
		decided("other", 0, func(a *api.ToolApproval) { a.Spec.RunRef.Name = "s" }),
		decided("elsewhere", 0, func(a *api.ToolApproval) { a.Namespace = "elsewhere" }),
		decided("garbled", 0, func(a *api.ToolApproval) { a.Spec.ArgumentsDigest = "sha256:x" }),
	}
	var failure error
	reader := fake.NewClientBuilder().WithScheme(testScheme()).WithObjects(objects...).
		WithIndex(&api.ToolApproval{}, FieldApprovalRun, func(o client.Object) []string { return []string{o.(*api.ToolApproval).Spec.RunRef.Name} }).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if failure != nil {
				return failure
			}
			return inner.List(ctx, list, opts...)
		}}).Build()
	source := &approvals{reader: reader, namespace: "ns", run: "r", uid: "run-uid"}
	got, err := source.Decisions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A decision counts from the end of its second.
	at := func(after int) time.Time { return created.Add(time.Duration(after+1)*time.Second - time.Nanosecond) }
	want := []agent.Decision{
		{ID: "uid-z", CallID: "c1", ArgumentsDigest: digest, At: at(1), Approver: "kim", Reason: "no"},
		{ID: "uid-a", CallID: "c1", ArgumentsDigest: digest, Approve: true, At: at(5), Approver: "kim"},
		{ID: "uid-b", CallID: "c1", ArgumentsDigest: digest, Approve: true, At: at(5), Approver: "kim"},
	}
	for i := range got {
		got[i].At = got[i].At.UTC()
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(cas.Digest{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	failure = errors.New("away")
	if _, err := source.Decisions(t.Context()); !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
}
