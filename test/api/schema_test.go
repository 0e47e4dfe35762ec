package api

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// loadCRDs reads the generated CRDs by kind.
func loadCRDs(t *testing.T) map[string]apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(crdFolder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(data, &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[crd.Spec.Names.Kind] = crd
	}
	if len(out) != len(resources) {
		t.Fatalf("%d CRDs in %s, want %d", len(out), crdFolder, len(resources))
	}
	return out
}

// property is a field of a schema with the names of the fields above it.
type property struct {
	path   string
	name   string
	schema apiextensionsv1.JSONSchemaProps
}

// properties lists the fields under spec and status, those of metav1.Condition left out.
func properties(crd apiextensionsv1.CustomResourceDefinition) []property {
	var out []property
	var walk func(path string, s apiextensionsv1.JSONSchemaProps)
	walk = func(path string, s apiextensionsv1.JSONSchemaProps) {
		if s.Items != nil && s.Items.Schema != nil {
			walk(path+"[]", *s.Items.Schema)
		}
		for name, below := range s.Properties {
			at := path + "." + name
			out = append(out, property{path: at, name: name, schema: below})
			if name != "conditions" {
				walk(at, below)
			}
		}
	}
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	walk("spec", root.Properties["spec"])
	walk("status", root.Properties["status"])
	return out
}

func TestEveryFieldIsBoundedAndExplained(t *testing.T) {
	for kind, crd := range loadCRDs(t) {
		for _, p := range properties(crd) {
			checkBounds(t, kind+" "+p.path, p.schema)
			if !strings.HasPrefix(p.schema.Description, p.name+" ") {
				t.Errorf("%s %s: the description %q does not start with the field's name", kind, p.path, p.schema.Description)
			}
		}
	}
}

func checkBounds(t *testing.T, at string, s apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	switch s.Type {
	case "string":
		if s.MaxLength == nil && len(s.Enum) == 0 && s.Format != "date-time" {
			t.Errorf("%s: a string without maxLength", at)
		}
	case "array":
		if s.MaxItems == nil {
			t.Errorf("%s: a list without maxItems", at)
		}
		if s.XListType == nil {
			t.Errorf("%s: a list without a list type", at)
		}
		checkBounds(t, at+"[]", *s.Items.Schema)
	case "integer":
		if s.Minimum == nil || (s.Maximum == nil && s.Format != "int32") {
			t.Errorf("%s: a number without bounds", at)
		}
	case "boolean", "object":
	default:
		t.Errorf("%s: a field of type %q", at, s.Type)
	}
	for _, rule := range s.XValidations {
		if rule.Message == "" {
			t.Errorf("%s: rule %q without a message", at, rule.Rule)
		}
	}
}

// TestBooleansAreFew keeps to enums wherever a third value may come.
func TestBooleansAreFew(t *testing.T) {
	allowed := map[string]bool{
		"cancel": true, "suspend": true, "fits": true, "dispatched": true, "images": true, "calibratedFits": true, "retryable": true,
	}
	for kind, crd := range loadCRDs(t) {
		for _, p := range properties(crd) {
			if p.schema.Type == "boolean" && !allowed[p.name] {
				t.Errorf("%s %s is a boolean: make it an enum", kind, p.path)
			}
		}
	}
}

// TestEveryFieldIsDocumented says that the page of a kind names every field, every value of an enum and every printed column.
func TestEveryFieldIsDocumented(t *testing.T) {
	for kind, crd := range loadCRDs(t) {
		data, err := os.ReadFile(filepath.Join("../../docs/spec/v1alpha1", strings.ToLower(kind)+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		page := string(data)
		for _, p := range properties(crd) {
			if !strings.Contains(page, "`"+p.name+"`") {
				t.Errorf("the page of %s does not name `%s` (%s)", kind, p.name, p.path)
			}
			for _, value := range p.schema.Enum {
				if word := strings.Trim(string(value.Raw), `"`); !strings.Contains(page, "`"+word+"`") {
					t.Errorf("the page of %s does not name the value `%s` of %s", kind, word, p.path)
				}
			}
		}
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			if name := strings.ToUpper(column.Name); !strings.Contains(page, "`"+name+"`") {
				t.Errorf("the page of %s does not name the column `%s`", kind, name)
			}
		}
	}
}
