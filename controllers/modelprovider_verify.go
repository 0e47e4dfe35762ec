package controllers

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/provider"
)

// check is what a comparison came to.
type check struct {
	status metav1.ConditionStatus
	verdict
}

// verifyModels compares declared models with what their provider tells. It is pure. Limits that differ go before models
// that are not listed: the former are facts, while a gateway may serve what it does not list.
func verifyModels(declared []api.Model, l Listing) *check {
	if !l.Known {
		return &check{metav1.ConditionUnknown, verdict{api.ProviderReasonNotChecked, "the provider was not asked for its models yet"}}
	}
	if l.Err != nil {
		return &check{metav1.ConditionUnknown, unreadable(l.Err)}
	}
	byID := make(map[string]provider.ModelInfo, len(l.Models))
	for _, m := range l.Models {
		byID[m.ID] = m
	}
	var differ, unlisted []string
	told := 0
	for i := range declared {
		m := &declared[i]
		info := byID[m.ID]
		if !info.Listed {
			unlisted = append(unlisted, fmt.Sprintf("the provider knows no model %s: correct its id in spec.models", shown(m.ID)))
			continue
		}
		if info.ContextWindow != nil || info.MaxTokens != nil {
			told++
		}
		if text := difference(m, info); text != "" {
			differ = append(differ, text)
		}
	}
	switch {
	case len(differ) > 0:
		return &check{metav1.ConditionFalse, verdict{api.ProviderReasonLimitsDiffer, first(differ)}}
	case len(unlisted) > 0:
		return &check{metav1.ConditionFalse, verdict{api.ProviderReasonModelNotListed, first(unlisted)}}
	case told == 0:
		return &check{metav1.ConditionUnknown, verdict{api.ProviderReasonLimitsNotTold, "the provider tells no limits: compare spec.models with its documentation"}}
	case told < len(declared):
		return &check{metav1.ConditionTrue, verdict{api.ProviderReasonMatches, fmt.Sprintf("the provider tells limits of %d of %d models", told, len(declared))}}
	}
	return &check{metav1.ConditionTrue, verdict{reason: api.ProviderReasonMatches}}
}

// difference says which limits of a model differ and what to change; empty when none does.
func difference(m *api.Model, info provider.ModelInfo) string {
	var parts []string
	higher := false // a declared limit is higher than the told one: requests fail
	for _, limit := range []struct {
		name     string
		declared int64
		told     *int64
	}{{"contextWindow", m.ContextWindow, info.ContextWindow}, {"maxOutputTokens", m.MaxOutputTokens, info.MaxTokens}} {
		if limit.told == nil || *limit.told == limit.declared {
			continue
		}
		higher = higher || limit.declared > *limit.told
		parts = append(parts, fmt.Sprintf("%s %d (declared %d)", limit.name, *limit.told, limit.declared))
	}
	if len(parts) == 0 {
		return ""
	}
	text := fmt.Sprintf("the provider tells of %s: %s: ", shown(m.ID), strings.Join(parts, ", "))
	if higher {
		return text + "correct spec.models"
	}
	return text + "raise it, or leave it to use less"
}

// shown is a model's id, cut so that every message keeps the end that says what to do.
func shown(id string) string {
	const most = 64
	if len(id) <= most {
		return id
	}
	return id[:most-len("…")] + "…"
}

// first is the first of several findings, and how many more there are.
func first(found []string) string {
	if len(found) == 1 {
		return found[0]
	}
	return fmt.Sprintf("%s (and %d more)", found[0], len(found)-1)
}

// unreadable says why a listing could not be read.
func unreadable(err error) verdict {
	var failure *provider.Error
	switch {
	case errors.Is(err, provider.ErrNoListing):
		return verdict{api.ProviderReasonListingUnsupported, "the provider has no model listing: compare spec.models with its documentation"}
	case !errors.As(err, &failure):
		return verdict{api.ProviderReasonListingUnavailable, "the provider could not be asked for its models: it is tried again"}
	case failure.Class == provider.ClassAuth:
		return verdict{
			api.ProviderReasonListingRefused,
			fmt.Sprintf("the provider shows this credential no models (HTTP %d): let it read them, or compare spec.models with the documentation", failure.HTTPStatus),
		}
	}
	return verdict{api.ProviderReasonListingUnavailable, fmt.Sprintf("the provider's model listing cannot be read (%s): it is tried again", cause(failure))}
}

// cause is a failure in few words that are safe to show.
func cause(failure *provider.Error) string {
	switch {
	case failure.Class == provider.ClassCancelled:
		return "no answer in time"
	case failure.HTTPStatus >= 300:
		return fmt.Sprintf("HTTP %d", failure.HTTPStatus)
	case failure.Code != "":
		return failure.Code
	}
	return string(failure.Class)
}
