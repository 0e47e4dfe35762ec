package local

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/agentloop/agentloop/config/crd"
)

// kind is what the definition of a kind says about its manifests.
type kind struct {
	schema *jsonschema.Schema
	tree   map[string]any
}

// kinds reads the definitions.
func kinds() (map[string]*kind, error) {
	out := map[string]*kind{}
	files, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		raw, err := crd.Files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var definition struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
					}
				}
			}
		}
		if err := yaml.Unmarshal(raw, &definition); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		tree := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		strict(tree)
		compiler := jsonschema.NewCompiler()
		address := "https://agentloop.dev/" + definition.Spec.Names.Kind
		if err := compiler.AddResource(address, tree); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		schema, err := compiler.Compile(address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out[definition.Spec.Names.Kind] = &kind{schema: schema, tree: tree}
	}
	return out, nil
}

// strict refuses fields that there are not, as kubectl has the API server do, and takes out what is no JSON schema.
func strict(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	if properties != nil && schema["x-kubernetes-preserve-unknown-fields"] != true && schema["additionalProperties"] == nil {
		schema["additionalProperties"] = false
	}
	for name, inner := range properties {
		object, ok := inner.(map[string]any)
		if !ok {
			continue
		}
		if name == "metadata" && object["properties"] == nil {
			continue
		}
		strict(object)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		strict(items)
	}
	if inner, ok := schema["additionalProperties"].(map[string]any); ok {
		strict(inner)
	}
	for key := range schema {
		if strings.HasPrefix(key, "x-kubernetes-") {
			delete(schema, key)
		}
	}
	delete(schema, "format") // int64 and the like, which only say how a number is kept
}

// fill puts defaults into an object, as the API server does.
func fill(value any, schema map[string]any) {
	switch value := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, inner := range properties {
			sub, _ := inner.(map[string]any)
			if _, there := value[name]; !there && sub["default"] != nil {
				value[name] = clone(sub["default"])
			}
			if at, there := value[name]; there {
				fill(at, sub)
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for _, one := range value {
			fill(one, items)
		}
	}
}

// clone copies a default, so that filling one object does not change it for the next one.
func clone(value any) any {
	raw, err := json.Marshal(value)
	if err != nil {
		return value
	}
	var out any
	if json.Unmarshal(raw, &out) != nil {
		return value
	}
	return out
}
