package v1alpha1

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// freeText are the fields whose content nobody chose with JSON in mind; all others are names, ids and digests, which are
// ASCII within the schema's maxLength.
var freeText = map[string]bool{
	"AgentSessionStatus.title": true, "AgentSessionStatus.trajectoryURL": true, "AgentRunStatus.resultPreview": true,
	"PendingApproval.tool": true, "RunWorker.identity": true, "RunFailure.class": true,
}

// bounds is the part of an OpenAPI schema that bounds a value.
type bounds struct {
	Properties map[string]bounds `json:"properties"`
	Items      *bounds           `json:"items"`
	MaxLength  *int              `json:"maxLength"`
	Maximum    *int64            `json:"maximum"`
	Minimum    *int64            `json:"minimum"`
	Enum       []string          `json:"enum"`
	Format     string            `json:"format"`
}

func statusSchema(t *testing.T, plural string) bounds {
	t.Helper()
	data, err := os.ReadFile("../../config/crd/agentloop.dev_" + plural + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema bounds `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	status, ok := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	if !ok {
		t.Fatalf("the CRD of %s has no status", plural)
	}
	return status
}

// filler sets every field of a status: to the longest that the schema lets through, or to something random.
type filler struct {
	t      *testing.T
	random *rand.Rand
	text   string
}

var endOfYear = metav1.NewTime(time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC))

func (f filler) fill(v reflect.Value, limits bounds, name string) {
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(endOfYear))
		return
	case []metav1.Condition:
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		f.fillFields(v, limits)
	case reflect.Pointer:
		if f.random == nil || f.random.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), limits, name)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 9, 9))
		for i := range v.Len() {
			f.fill(v.Index(i), *limits.Items, name)
		}
	case reflect.String:
		v.SetString(f.str(limits, name))
	case reflect.Bool:
		v.SetBool(false)
	case reflect.Int32, reflect.Int64:
		v.SetInt(f.number(limits, name))
	default:
		f.t.Fatalf("%s: no way to fill a %s", name, v.Kind())
	}
}

func (f filler) fillFields(v reflect.Value, limits bounds) {
	for i := range v.NumField() {
		tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		field, ok := limits.Properties[tag]
		if !ok {
			f.t.Fatalf("%s.%s is not in the CRD: run hack/generate.sh", v.Type().Name(), tag)
		}
		f.fill(v.Field(i), field, v.Type().Name()+"."+tag)
	}
}

func (f filler) str(limits bounds, name string) string {
	if freeText[name] {
		return f.free(5000)
	}
	longest := ""
	for _, value := range limits.Enum {
		if len(value) > len(longest) {
			longest = value
		}
	}
	if len(limits.Enum) > 0 {
		return longest
	}
	if limits.MaxLength == nil {
		f.t.Fatalf("%s: the schema has no maxLength", name)
	}
	return strings.Repeat("x", *limits.MaxLength)
}

func (f filler) number(limits bounds, name string) int64 {
	switch {
	case limits.Minimum != nil && *limits.Minimum < 0:
		return *limits.Minimum
	case limits.Maximum != nil:
		return *limits.Maximum
	case limits.Format == "int32":
		return 1<<31 - 1
	}
	f.t.Fatalf("%s: the schema has no maximum", name)
	return 0
}

func (f filler) free(limit int) string {
	if f.random == nil {
		return strings.Repeat(f.text, limit)
	}
	alphabet := []string{"a", "<", "&", "\"", "\\", "\n", "\x00", "\x7f", "é", "中", "😀", "\u2028", "\xff", "\uFFFD"}
	var b strings.Builder
	for range f.random.IntN(limit) {
		b.WriteString(alphabet[f.random.IntN(len(alphabet))])
	}
	return b.String()
}

func (f filler) conditions(finished metav1.ConditionStatus, types ...string) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(types))
	for _, kind := range types {
		c := metav1.Condition{
			Type: kind, Status: metav1.ConditionUnknown, ObservedGeneration: 1<<53 - 1, Reason: RunReasonToolServerUnavailable,
			Message: f.free(5000), LastTransitionTime: endOfYear,
		}
		if kind == ConditionFinished {
			c.Status = finished
		}
		out = append(out, c)
	}
	return out
}

// checkStatuses fills the statuses of all kinds and compares their size after Bound with the limit.
func checkStatuses(t *testing.T, schemas map[string]bounds, f filler) {
	t.Helper()
	var provider ModelProviderStatus
	f.fill(reflect.ValueOf(&provider).Elem(), schemas["modelproviders"], "")
	provider.Conditions = f.conditions("", ConditionReady)
	provider.Bound()

	var session AgentSessionStatus
	f.fill(reflect.ValueOf(&session).Elem(), schemas["agentsessions"], "")
	session.Conditions = f.conditions("", ConditionReady, ConditionActive, ConditionHistoryDurable)
	session.Bound()

	types := []string{ConditionAccepted, ConditionSucceeded, ConditionFinished}
	var done, live AgentRunStatus
	f.fill(reflect.ValueOf(&done).Elem(), schemas["agentruns"], "")
	done.Conditions = f.conditions(metav1.ConditionTrue, types...)
	done.Bound()
	f.fill(reflect.ValueOf(&live).Elem(), schemas["agentruns"], "")
	live.Conditions = f.conditions(metav1.ConditionFalse, types...)
	live.Bound()

	var decision ToolApprovalStatus
	f.fill(reflect.ValueOf(&decision).Elem(), schemas["toolapprovals"], "")
	decision.Conditions = f.conditions("", ConditionApplied)
	decision.Bound()

	for name, status := range map[string]any{"decision": decision, "provider": provider, "session": session, "finished run": done, "live run": live} {
		data, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > MaxStatusBytes {
			t.Errorf("the status of a %s has %d bytes of JSON, more than %d", name, len(data), MaxStatusBytes)
		}
	}
}

func allSchemas(t *testing.T) map[string]bounds {
	t.Helper()
	out := map[string]bounds{}
	for _, plural := range []string{"modelproviders", "agentsessions", "agentruns", "toolapprovals"} {
		out[plural] = statusSchema(t, plural)
	}
	return out
}

func TestMaximalStatusIsBounded(t *testing.T) {
	schemas := allSchemas(t)
	for _, text := range []string{"a", "<", "\"", "\x01", "中", "😀", "\xff", "\u2028"} {
		checkStatuses(t, schemas, filler{t: t, text: text})
	}
}

func TestRandomStatusIsBounded(t *testing.T) {
	schemas := allSchemas(t)
	for seed := range uint64(200) {
		checkStatuses(t, schemas, filler{t: t, random: rand.New(rand.NewPCG(seed, 1))})
	}
}

func TestBoundOfApprovals(t *testing.T) {
	long := strings.Repeat("i", 65)
	status := AgentRunStatus{PendingApprovalsTotal: 7}
	for _, id := range []string{long, "a", "b", long, "c", "d", "e"} {
		status.PendingApprovals = append(status.PendingApprovals, PendingApproval{ToolCallID: id, Tool: "delete"})
	}
	status.Bound()
	var got []string
	for _, a := range status.PendingApprovals {
		got = append(got, a.ToolCallID)
	}
	if want := "a b c d"; strings.Join(got, " ") != want {
		t.Errorf("kept %q, want %q: the first four whose id stands there whole", got, want)
	}
	if status.PendingApprovalsTotal != 7 {
		t.Errorf("the count became %d, want 7", status.PendingApprovalsTotal)
	}

	status.Conditions = []metav1.Condition{{Type: ConditionFinished, Status: metav1.ConditionTrue}}
	status.Bound()
	if len(status.PendingApprovals) != 0 || status.PendingApprovalsTotal != 0 {
		t.Errorf("a finished run still waits for %d approvals", status.PendingApprovalsTotal)
	}
}

func TestCut(t *testing.T) {
	cases := map[string]struct {
		text  string
		limit int
		want  string
	}{
		"a short text stays as it is":                   {text: "queued", limit: 6, want: "queued"},
		"a long one is cut before the ellipsis":         {text: "abcdefgh", limit: 6, want: "abc…"},
		"a character is kept whole or not at all":       {text: "ab😀cd😀", limit: 8, want: "ab…"},
		"what JSON escapes counts as long as it gets":   {text: "<<<", limit: 17, want: "<<…"},
		"bytes that are no UTF-8 become replacements":   {text: "a\xffb", limit: 5, want: "a\uFFFDb"},
		"a quote takes two bytes":                       {text: `"""`, limit: 6, want: `"""`},
		"nothing fits but the ellipsis":                 {text: "中中中", limit: 5, want: "…"},
		"an empty text stays empty":                     {text: "", limit: 3, want: ""},
		"a text without escapes of just the limit fits": {text: "中中", limit: 6, want: "中中"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cut(c.text, c.limit); got != c.want {
				t.Errorf("cut(%q, %d) = %q, want %q", c.text, c.limit, got, c.want)
			}
		})
	}
}

func FuzzCut(f *testing.F) {
	f.Add("a<b>\x00\xff中😀", 10)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 3 || limit > 1<<16 {
			return
		}
		got := cut(text, limit)
		data, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if len(data)-2 > limit {
			t.Errorf("cut(%q, %d) = %q takes %d bytes of JSON", text, limit, got, len(data)-2)
		}
		if !utf8.ValidString(got) {
			t.Errorf("cut(%q, %d) = %q is no UTF-8", text, limit, got)
		}
	})
}
