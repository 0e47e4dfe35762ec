package v1alpha1

import (
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// MaxStatusBytes is how long the JSON of a status is at most after Bound.
	MaxStatusBytes = 4096

	// MaxMessageBytes is how long a condition's message is at most after Bound, in bytes of JSON.
	MaxMessageBytes = 256

	// minorMessageBytes is the same for conditions that repeat what another one explains.
	minorMessageBytes = 96

	maxApprovals     = 4
	maxCallIDBytes   = 64
	maxToolBytes     = 64
	maxIdentityBytes = 63
	maxClassBytes    = 32
	maxTitleBytes    = 128
	maxPreviewBytes  = 256
	maxURLBytes      = 512
)

// Bound cuts what could grow, so that the JSON of the status is at most MaxStatusBytes long. Writers call it last, before
// every write. It cuts free texts at a character boundary and marks the cut with an ellipsis; it never cuts an identifier
// that somebody must repeat, but leaves the whole entry out, while its counter still counts it.
//
// What only a finished run has is dropped from a live one, and the other way round. Names, ids and digests are within the
// maxima of the schema; writers see to that.
func (s *AgentRunStatus) Bound() {
	for i := range s.Conditions {
		limit := minorMessageBytes
		if s.Conditions[i].Type == ConditionSucceeded {
			limit = MaxMessageBytes
		}
		s.Conditions[i].Message = cut(s.Conditions[i].Message, limit)
	}
	s.ResultPreview = cut(s.ResultPreview, maxPreviewBytes)
	if s.Worker != nil {
		s.Worker.Identity = cut(s.Worker.Identity, maxIdentityBytes)
	}
	if s.Failure != nil {
		s.Failure.Class = cut(s.Failure.Class, maxClassBytes)
	}
	if s.IsFinished() {
		s.PendingApprovals, s.PendingApprovalsTotal = nil, 0
	} else {
		s.CompletionTime, s.Result, s.ResultPreview, s.Failure = nil, nil, "", nil
	}
	s.PendingApprovals = boundApprovals(s.PendingApprovals)
}

// Bound does for a session's status what AgentRunStatus.Bound does for a run's.
func (s *AgentSessionStatus) Bound() {
	boundMessages(s.Conditions)
	s.Title = cut(s.Title, maxTitleBytes)
	if cut(s.TrajectoryURL, maxURLBytes) != s.TrajectoryURL {
		s.TrajectoryURL = ""
	}
}

// Bound does for a provider's status what AgentRunStatus.Bound does for a run's.
func (s *ModelProviderStatus) Bound() {
	boundMessages(s.Conditions)
}

// Bound does for a decision's status what AgentRunStatus.Bound does for a run's.
func (s *ToolApprovalStatus) Bound() {
	boundMessages(s.Conditions)
}

func boundMessages(conditions []metav1.Condition) {
	for i := range conditions {
		conditions[i].Message = cut(conditions[i].Message, MaxMessageBytes)
	}
}

// boundApprovals keeps the first entries whose call id is short enough to stand there whole.
func boundApprovals(all []PendingApproval) []PendingApproval {
	var kept []PendingApproval
	for _, a := range all {
		if len(kept) == maxApprovals || encodedLen(a.ToolCallID) > maxCallIDBytes {
			continue
		}
		a.Tool = cut(a.Tool, maxToolBytes)
		kept = append(kept, a)
	}
	return kept
}

// cut returns text, or its longest beginning with an ellipsis behind, so that its JSON without the quotes has at most
// limit bytes. Bytes that are no UTF-8 become U+FFFD.
func cut(text string, limit int) string {
	const ellipsis = "…"
	text = strings.ToValidUTF8(text, "\uFFFD")
	if encodedLen(text) <= limit {
		return text
	}
	size := 0
	for i, r := range text {
		if size += encodedRuneLen(r); size > limit-len(ellipsis) {
			return text[:i] + ellipsis
		}
	}
	return text
}

func encodedLen(text string) int {
	n := 0
	for _, r := range text {
		n += encodedRuneLen(r)
	}
	return n
}

// encodedRuneLen is how many bytes encoding/json writes for a rune inside a string, with HTML escaping, which is how the
// API server stores it.
func encodedRuneLen(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\b', r == '\f', r == '\n', r == '\r', r == '\t':
		return len(`\n`)
	case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029':
		return len(`\u0000`)
	}
	return utf8.RuneLen(r)
}
