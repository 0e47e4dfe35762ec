package budget

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGuardNamesFieldAndNumbersOnly(t *testing.T) {
	policy := Policy{Reserve: 100, Ceiling: 1000}
	cases := map[string]struct {
		body string
		want OutputCapError
		text string
	}{
		"invalid": {`{"max_tokens":"sk-secret"}`, OutputCapError{Fault: CapInvalid, Field: "max_tokens", Reserve: 100, Ceiling: 1000},
			"request refused by the output cap guard: max_tokens is not a positive safe integer"},
		"exceeds": {`{"max_output_tokens":101,"x":"sk-secret"}`,
			OutputCapError{Fault: CapExceeds, Field: "max_output_tokens", Value: 101, Reserve: 100, Ceiling: 1000},
			"request refused by the output cap guard: max_output_tokens of 101 tokens exceeds the output reserve of 100"},
		"omitted": {`{"x":"sk-secret"}`, OutputCapError{Fault: CapOmitted, Reserve: 100, Ceiling: 1000},
			"request refused by the output cap guard: the cap is omitted although only 100 of the model's 1000 output tokens are reserved"},
		"not an object": {`"sk-secret"`, OutputCapError{Fault: CapUnreadable, Reserve: 100, Ceiling: 1000},
			"request refused by the output cap guard: the body is not a JSON object"},
		"not JSON": {`sk-secret`, OutputCapError{Fault: CapUnreadable, Reserve: 100, Ceiling: 1000},
			"request refused by the output cap guard: the body is not a JSON object"},
		"two objects": {`{"max_tokens":1}{"max_tokens":2}`, OutputCapError{Fault: CapUnreadable, Reserve: 100, Ceiling: 1000},
			"request refused by the output cap guard: the body is not a JSON object"},
		"empty": {``, OutputCapError{Fault: CapUnreadable, Reserve: 100, Ceiling: 1000},
			"request refused by the output cap guard: the body is not a JSON object"},
		"the first of two faults": {`{"max_tokens":101,"max_output_tokens":-1}`,
			OutputCapError{Fault: CapExceeds, Field: "max_tokens", Value: 101, Reserve: 100, Ceiling: 1000},
			"request refused by the output cap guard: max_tokens of 101 tokens exceeds the output reserve of 100"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			limit, err := GuardPayload([]byte(tc.body), policy)
			var refused *OutputCapError
			if limit != nil || !errors.Is(err, ErrOutputCap) || !errors.As(err, &refused) {
				t.Fatalf("limit %v, error %v", limit, err)
			}
			if diff := cmp.Diff(tc.want, *refused); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.text, err.Error()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestGuardRefusesAPolicyThatIsNone(t *testing.T) {
	for name, policy := range map[string]Policy{
		"zero":                      {},
		"no reserve":                {Ceiling: 100},
		"no ceiling":                {Reserve: 100},
		"reserve above the ceiling": {Reserve: 101, Ceiling: 100},
		"ceiling out of range":      {Reserve: 1, Ceiling: MaxTokenCount + 1},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := GuardPayload([]byte(`{"max_tokens":1}`), policy); !errors.Is(err, ErrInvalid) || errors.Is(err, ErrOutputCap) {
				t.Errorf("error %v, want ErrInvalid", err)
			}
		})
	}
}

func TestGuardKeepsNothingOfTheBody(t *testing.T) {
	body := []byte(`{"max_tokens":7}`)
	limit, err := GuardPayload(body, Policy{Reserve: 10, Ceiling: 10})
	if err != nil {
		t.Fatal(err)
	}
	copy(body, strings.Repeat("x", len(body)))
	if *limit != 7 {
		t.Errorf("limit became %d when the body was overwritten", *limit)
	}
}

// FuzzGuard: the guard never panics, and a body that it accepts holds, read again by encoding/json, no cap that is no
// positive safe integer or is above the reserve, and leaves the cap out only if the whole ceiling is reserved.
func FuzzGuard(f *testing.F) {
	for _, body := range []string{`{}`, `{"max_tokens":5}`, `{"max_tokens":5,"max_tokens":50}`, `{"max\u005ftokens":1e2}`,
		`{"a":{"max_tokens":-1},"max_output_tokens": 10 }`, `[]`, ``, `{"max_completion_tokens":9007199254740992}`,
		"{\"\xff\":\"\xff\",\"max_tokens\":1}", `{"max_tokens":5} x`, `{"\\\"":"}","max_tokens":3}`} {
		f.Add([]byte(body), int64(10), int64(100))
		f.Add([]byte(body), int64(100), int64(100))
	}
	f.Fuzz(func(t *testing.T, body []byte, reserve, ceiling int64) {
		limit, err := GuardPayload(body, Policy{Reserve: reserve, Ceiling: ceiling})
		if err != nil {
			if limit != nil || !errors.Is(err, ErrOutputCap) && !errors.Is(err, ErrInvalid) {
				t.Fatalf("limit %v with the error %v", limit, err)
			}
			return
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil || object == nil {
			t.Fatalf("accepted %q, which is not a JSON object: %v", body, err)
		}
		var largest int64
		for _, field := range capFields {
			raw, ok := object[field]
			if !ok {
				continue
			}
			var n int64
			if err := json.Unmarshal(raw, &n); err != nil || n < 1 || n > reserve || n > 1<<53-1 {
				t.Fatalf("accepted %s = %s under a reserve of %d", field, raw, reserve)
			}
			largest = max(largest, n)
		}
		if (limit == nil) != (largest == 0) || limit != nil && (*limit < largest || *limit > reserve) {
			t.Fatalf("limit %v, the largest cap is %d", limit, largest)
		}
		if largest == 0 && reserve != ceiling {
			t.Fatalf("accepted %q without a cap under %d of %d", body, reserve, ceiling)
		}
	})
}
