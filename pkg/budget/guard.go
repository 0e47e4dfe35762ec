package budget

import (
	"encoding/json"

	"github.com/agentloop/agentloop/pkg/internal/jsonwalk"
)

// capFields are the top-level keys in which the protocols declare their output caps.
var capFields = [...]string{"max_tokens", "max_completion_tokens", "max_output_tokens"}

// declaredCaps calls visit with every own member of the JSON object body whose key is capFields[field], in order and
// with duplicates. It reports false when body is not one JSON object, and then has visited nothing.
func declaredCaps(body []byte, visit func(field int, value []byte)) bool {
	if !json.Valid(body) {
		return false
	}
	ok, _ := jsonwalk.Object(body, func(key, value []byte) error { // visit never ends the walk
		for field, name := range capFields {
			if string(key) == name {
				visit(field, value)
			}
		}
		return nil
	})
	return ok
}

// GuardPayload checks the output caps that a serialized request declares against its policy. body is the exact request
// body, after every hook that may change it; policy is what ReserveFor returned for the request.
//
// It looks at the body's own keys max_tokens, max_completion_tokens and max_output_tokens and nowhere deeper. Each
// occurrence must be a positive safe integer that is not above the reserve, a key given twice included: which one a
// provider obeys is its own affair. Without any of them the request passes only if the model's whole ceiling is reserved.
//
// limit is the largest declared cap, nil when there is none. A refusal is an *OutputCapError; ErrInvalid says that the
// policy itself is out of range. The body is not kept. What a provider makes of a cap cannot be checked here.
func GuardPayload(body []byte, policy Policy) (limit *int64, err error) {
	if err := checkCount("the model's output ceiling", policy.Ceiling); err != nil {
		return nil, err
	}
	if err := checkReserve(policy.Reserve, policy.Ceiling); err != nil {
		return nil, err
	}
	var largest int64
	var refused *OutputCapError
	readable := declaredCaps(body, func(field int, value []byte) {
		n, ok := parseCount(value)
		switch {
		case refused != nil: // the first fault is reported
		case !ok:
			refused = policy.refuse(CapInvalid, capFields[field], 0)
		case n > policy.Reserve:
			refused = policy.refuse(CapExceeds, capFields[field], n)
		}
		largest = max(largest, n)
	})
	switch {
	case !readable:
		refused = policy.refuse(CapUnreadable, "", 0)
	case refused == nil && largest == 0 && policy.Reserve < policy.Ceiling:
		refused = policy.refuse(CapOmitted, "", 0)
	}
	if refused != nil {
		return nil, refused
	}
	if largest == 0 {
		return nil, nil //nolint:nilnil // the body declares no cap
	}
	return &largest, nil
}

func (p Policy) refuse(fault CapFault, field string, value int64) *OutputCapError {
	return &OutputCapError{Fault: fault, Field: field, Value: value, Reserve: p.Reserve, Ceiling: p.Ceiling}
}
