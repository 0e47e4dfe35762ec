package provider_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/provider"
)

func TestClassifyWords(t *testing.T) {
	cases := map[string]struct {
		api     provider.API
		status  int
		headers map[string][]string
		body    string
		want    provider.Verdict
	}{
		"type and code of an OpenAI error": {
			status: 429, body: `{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`,
			want: provider.Verdict{Class: provider.ClassQuota, Type: "insufficient_quota", Code: "insufficient_quota"},
		},
		"error code in Anthropic's details": {
			status: 429, body: `{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}`,
			want: provider.Verdict{Class: provider.ClassQuota, Type: "rate_limit_error", Code: "enforced_spend_limit_reached"},
		},
		"a numeric code is shown as its digits": {
			status: 400, body: `{"object":"error","message":"m","type":"BadRequestError","code":40303}`,
			want: provider.Verdict{Class: provider.ClassInvalidRequest, Type: "BadRequestError", Code: "40303"},
		},
		"the status inside an event stands in for the 200": {
			status: 200, body: `{"error":{"message":"m","type":"x","code":503}}`,
			want: provider.Verdict{Class: provider.ClassOverloaded, Type: "x", Code: "503"},
		},
		"AWS puts the type into a header": {
			status: 400, headers: map[string][]string{"X-Amzn-Errortype": {"ThrottlingException:http://internal.amazon.com/"}},
			body: `{"message":"m"}`,
			want: provider.Verdict{Class: provider.ClassRateLimited, Type: "ThrottlingException"},
		},
		"words that look like text are not shown": {
			status: 400, body: `{"error":{"type":"the user said hello","code":"sk-ant-` + strings.Repeat("x", 80) + `","message":"m"}}`,
			want: provider.Verdict{Class: provider.ClassInvalidRequest},
		},
		"a wait in Go's notation": {
			status: 429, body: `{"error":{"message":"Please try again in 1m30.5s.","code":"rate_limit_exceeded"}}`,
			want: provider.Verdict{Class: provider.ClassRateLimited, Code: "rate_limit_exceeded", Wait: 90500 * time.Millisecond},
		},
		"a wait in milliseconds": {
			status: 429, body: `{"error":{"message":"Please try again in 859ms."}}`,
			want: provider.Verdict{Class: provider.ClassRateLimited, Wait: 859 * time.Millisecond},
		},
		"a wait in words": {
			status: 429, body: `{"error":{"message":"Retry after 2 minutes"}}`,
			want: provider.Verdict{Class: provider.ClassRateLimited, Wait: 2 * time.Minute},
		},
		"Google's retry info": {
			status: 429, body: `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"m","details":[{"retryDelay":"34s"}]}}]`,
			want: provider.Verdict{Class: provider.ClassRateLimited, Code: "429", Wait: 34 * time.Second},
		},
		"please adjust and try again names no wait": {
			status: 400, body: `{"error":{"message":"Your input exceeds the context window. Please adjust your input and try again."}}`,
			want: provider.Verdict{Class: provider.ClassOverflow},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := provider.Classify(c.api, c.status, c.headers, []byte(c.body))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		headers map[string][]string
		want    time.Duration
	}{
		"nothing":                            {headers: nil, want: 0},
		"seconds":                            {headers: map[string][]string{"Retry-After": {"7"}}, want: 7 * time.Second},
		"a fraction of a second":             {headers: map[string][]string{"Retry-After": {"0.25"}}, want: 250 * time.Millisecond},
		"milliseconds win":                   {headers: map[string][]string{"Retry-After": {"7"}, "Retry-After-Ms": {"1500"}}, want: 1500 * time.Millisecond},
		"any spelling of the name":           {headers: map[string][]string{"retry-after": {" 3 "}}, want: 3 * time.Second},
		"a date, by our clock":               {headers: map[string][]string{"Retry-After": {"Tue, 01 Dec 2026 10:00:30 GMT"}}, want: 30 * time.Second},
		"a date, by the server's own clock":  {headers: map[string][]string{"Retry-After": {"Tue, 01 Dec 2026 12:00:05 GMT"}, "Date": {"Tue, 01 Dec 2026 12:00:00 GMT"}}, want: 5 * time.Second},
		"a date in the past":                 {headers: map[string][]string{"Retry-After": {"Tue, 01 Dec 2026 09:00:00 GMT"}}, want: 0},
		"a date in the old format":           {headers: map[string][]string{"Retry-After": {"Tuesday, 01-Dec-26 10:00:10 GMT"}}, want: 10 * time.Second},
		"negative":                           {headers: map[string][]string{"Retry-After": {"-4"}}, want: 0},
		"not a number":                       {headers: map[string][]string{"Retry-After": {"NaN"}}, want: 0},
		"infinite":                           {headers: map[string][]string{"Retry-After": {"1e999"}}, want: 0},
		"longer than anything makes sense":   {headers: map[string][]string{"Retry-After": {"99999999999"}}, want: 30 * 24 * time.Hour},
		"nonsense":                           {headers: map[string][]string{"Retry-After": {"soon"}}, want: 0},
		"an empty list of values is no wait": {headers: map[string][]string{"Retry-After": {}}, want: 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := provider.RetryAfter(c.headers, now); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestOnlyWaitingClassesAreRetryable(t *testing.T) {
	want := map[provider.Class]bool{
		provider.ClassRateLimited: true, provider.ClassOverloaded: true, provider.ClassTransient: true, provider.ClassTruncated: true,
		provider.ClassOverflow: false, provider.ClassQuota: false, provider.ClassAuth: false, provider.ClassInvalidRequest: false,
		provider.ClassRefused: false, provider.ClassCancelled: false, provider.ClassRejected: false,
	}
	for class, retryable := range want {
		if class.Retryable() != retryable {
			t.Errorf("%s: retryable %v, want %v", class, !retryable, retryable)
		}
	}
}

// FuzzClassify states that any answer gets one of the classes and that nothing that could be content is shown.
func FuzzClassify(f *testing.F) {
	for _, body := range []string{``, `{"error":"x"}`, `{"error":{"type":"a b","code":[1]}}`, `[[[[[[[[{"error":1}]]]]]]]]`,
		`{"error":{"metadata":{"raw":"{\"error\":{\"code\":\"insufficient_quota\"}}"}}}`, "\xff{", `{"message":"try again in 99999999999999999999h"}`} {
		f.Add(429, body)
		f.Add(200, body)
	}
	known := map[provider.Class]bool{provider.ClassOverflow: true, provider.ClassRateLimited: true, provider.ClassQuota: true,
		provider.ClassOverloaded: true, provider.ClassAuth: true, provider.ClassInvalidRequest: true,
		provider.ClassTransient: true, provider.ClassRefused: true}
	f.Fuzz(func(t *testing.T, status int, body string) {
		for _, api := range []provider.API{provider.APIAnthropicMessages, provider.APIOpenAIChat, provider.APIOpenAIResponses} {
			v := provider.Classify(api, status, nil, []byte(body))
			if !known[v.Class] {
				t.Fatalf("class %q", v.Class)
			}
			if v.Wait < 0 {
				t.Fatalf("wait %s", v.Wait)
			}
			if status == 429 && v.Class == provider.ClassOverflow && !strings.Contains(body, `"`) {
				t.Fatal("wording alone made a 429 an overflow")
			}
			for _, word := range []string{v.Type, v.Code} {
				if len(word) > 64 || strings.ContainsAny(word, " \n\t\"{}<>") {
					t.Fatalf("word %q", word)
				}
			}
		}
	})
}
