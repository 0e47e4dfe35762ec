package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type schema = apiextensionsv1.JSONSchemaProps

// page collects the text and what could not be said.
type page struct {
	out  *bytes.Buffer
	lost []error
}

func (p *page) err() error { return errors.Join(p.lost...) }

func (p *page) printf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

func (p *page) write(kinds []apiextensionsv1.CustomResourceDefinition) {
	p.printf(`# Reference

Every field of every kind, from the CRDs in ` + "`config/crd`" + `; ` + "`make generate`" + ` writes this page. What the fields are for, and what
conditions and reasons mean, is told on the page of each kind, which begins with an example.

| kind | page | short name | resource |
|---|---|---|---|
`)
	for _, crd := range kinds {
		names := crd.Spec.Names
		p.printf("| [%s](#%s) | [%s](%s.md) | `%s` | `%s.%s` |\n", names.Kind, strings.ToLower(names.Kind), names.Kind, strings.ToLower(names.Kind),
			strings.Join(names.ShortNames, "`, `"), names.Plural, crd.Spec.Group)
	}
	for _, crd := range kinds {
		p.kind(crd)
	}
}

func (p *page) kind(crd apiextensionsv1.CustomResourceDefinition) {
	for _, version := range crd.Spec.Versions {
		names, root := crd.Spec.Names, version.Schema.OpenAPIV3Schema
		p.printf("\n## %s\n\n%s\n\n", names.Kind, text(root.Description))
		p.printf("`apiVersion: %s/%s`, `kind: %s`, %s.\n", crd.Spec.Group, version.Name, names.Kind, strings.ToLower(string(crd.Spec.Scope)))
		p.rules(root)
		p.columns(version.AdditionalPrinterColumns)
		if len(version.SelectableFields) > 0 {
			p.printf("\nField selectors: ")
			for i, field := range version.SelectableFields {
				p.printf("%s`%s`", map[bool]string{true: ", "}[i > 0], strings.TrimPrefix(field.JSONPath, "."))
			}
			p.printf(".\n")
		}
		for _, name := range []string{"spec", "status"} {
			if top, ok := root.Properties[name]; ok {
				p.object(names.Kind+"."+name, top)
			}
		}
	}
}

func (p *page) columns(columns []apiextensionsv1.CustomResourceColumnDefinition) {
	if len(columns) == 0 {
		return
	}
	p.printf("\n| column | shows | |\n|---|---|---|\n")
	for _, c := range columns {
		wide := ""
		if c.Priority > 0 {
			wide = "with `-o wide`"
		}
		p.printf("| `%s` | `%s` | %s |\n", strings.ToUpper(c.Name), strings.ReplaceAll(c.JSONPath, "|", `\|`), wide)
	}
}

// object writes the section of an object, and after it those of the objects in it.
func (p *page) object(at string, s schema) {
	p.printf("\n### %s\n\n%s\n", at, text(s.Description))
	p.rules(&s)
	p.printf("\n| field | type | meaning | default | bounds |\n|---|---|---|---|---|\n")
	names := slices.Sorted(maps.Keys(s.Properties))
	for _, name := range names {
		field := s.Properties[name]
		p.printf("| `%s` | %s | %s | %s | %s |\n", name, p.kindOf(at+"."+name, field), text(field.Description), value(field.Default),
			strings.Join(p.bounds(at+"."+name, field, slices.Contains(s.Required, name)), "; "))
	}
	for _, name := range names {
		field := s.Properties[name]
		if name == "conditions" {
			continue
		}
		if field.Items != nil {
			field = *field.Items.Schema
		}
		if len(field.Properties) > 0 {
			p.object(at+"."+name, field)
		}
	}
}

// kindOf names the type of a field and links to the section of an object.
func (p *page) kindOf(at string, s schema) string {
	switch {
	case strings.HasSuffix(at, ".conditions"):
		return "list of Condition"
	case len(s.Properties) > 0:
		return "[object](#" + strings.ToLower(strings.ReplaceAll(at, ".", "")) + ")"
	case s.Type == "array":
		return "list of " + p.kindOf(at, *s.Items.Schema)
	case s.Type == "object" && s.AdditionalProperties != nil:
		return "map of " + p.kindOf(at, *s.AdditionalProperties.Schema)
	case s.Format != "":
		return s.Type + " (" + s.Format + ")"
	case s.Type == "":
		p.lost = append(p.lost, fmt.Errorf("%s has no type", at))
	}
	return s.Type
}

// rules writes what the API server checks about an object as a whole.
func (p *page) rules(s *schema) {
	for i, rule := range s.XValidations {
		if i == 0 {
			p.printf("\n")
		}
		p.printf("- %s\n", refusal(rule))
	}
}

// refusal is a rule in the words that the API server uses.
func refusal(rule apiextensionsv1.ValidationRule) string {
	if rule.Message != "" {
		return "refused with “" + text(rule.Message) + "”"
	}
	return "refused unless `" + strings.ReplaceAll(rule.Rule, "|", `\|`) + "`"
}

// text makes one line of a description, with nothing in it that a table or HTML would take for its own.
func text(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "[", `\[`, "*", `\*`).Replace(s)
}

func value(raw *apiextensionsv1.JSON) string {
	if raw == nil {
		return ""
	}
	return "`" + strings.ReplaceAll(string(raw.Raw), "|", `\|`) + "`"
}
