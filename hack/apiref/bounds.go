package main

import (
	"fmt"
	"strings"
)

// bounds lists what a value of the field has to be. A list has its own bounds and those of its elements.
func (p *page) bounds(at string, s schema, required bool) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if required {
		add("required")
	}
	if len(s.Enum) > 0 {
		values := make([]string, 0, len(s.Enum))
		for _, v := range s.Enum {
			values = append(values, "`"+strings.Trim(string(v.Raw), `"`)+"`")
		}
		add("%s", strings.Join(values, ", "))
	}
	out = append(out, span("", s.Minimum, s.Maximum)...)
	out = append(out, span(" characters", s.MinLength, s.MaxLength)...)
	out = append(out, span(" entries", s.MinItems, s.MaxItems)...)
	out = append(out, span(" fields", s.MinProperties, s.MaxProperties)...)
	if s.Pattern != "" {
		add("matches `%s`", strings.ReplaceAll(s.Pattern, "|", `\|`))
	}
	if len(s.XListMapKeys) > 0 {
		add("unique by `%s`", strings.Join(s.XListMapKeys, "`, `"))
	}
	if s.XListType != nil && *s.XListType == "set" {
		add("no entry twice")
	}
	if len(s.Properties) == 0 {
		for _, rule := range s.XValidations {
			add("%s", refusal(rule))
		}
	}
	if s.Items != nil && len(s.Items.Schema.Properties) == 0 {
		if below := p.bounds(at+"[]", *s.Items.Schema, false); len(below) > 0 {
			add("each: %s", strings.Join(below, "; "))
		}
	}
	p.unsaid(at, s)
	return out
}

// span says from where to where a number may go; either end may be open.
func span[N int64 | float64](unit string, low, high *N) []string {
	number := func(n N) string { return strings.TrimSuffix(fmt.Sprintf("%.0f", float64(n)), ".") }
	switch {
	case low != nil && high != nil:
		return []string{number(*low) + " to " + number(*high) + unit}
	case low != nil:
		return []string{"at least " + number(*low) + unit}
	case high != nil:
		return []string{"at most " + number(*high) + unit}
	}
	return nil
}

// unsaid finds what a schema may have and this page has no words for.
func (p *page) unsaid(at string, s schema) {
	for name, there := range map[string]bool{
		"oneOf": s.OneOf != nil, "anyOf": s.AnyOf != nil, "allOf": s.AllOf != nil, "not": s.Not != nil, "nullable": s.Nullable,
		"multipleOf": s.MultipleOf != nil, "uniqueItems": s.UniqueItems, "exclusive bounds": s.ExclusiveMinimum || s.ExclusiveMaximum,
		"int-or-string": s.XIntOrString, "unknown fields": s.XPreserveUnknownFields != nil, "embedded resources": s.XEmbeddedResource,
	} {
		if there {
			p.lost = append(p.lost, fmt.Errorf("%s: no words for %s: teach hack/apiref", at, name))
		}
	}
}
