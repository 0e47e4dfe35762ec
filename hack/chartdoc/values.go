package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// row is one value of the chart.
type row struct{ key, byDefault, text string }

// mark begins a description; what follows it on further comment lines belongs to it.
const mark = "# -- "

// describe lists the values that have a description, in the order of the file. A value without one that holds no further values
// is an error: it would be missing in the table.
func describe(values []byte) ([]row, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it is no mapping")
	}
	return walk("", document.Content[0])
}

func walk(prefix string, mapping *yaml.Node) ([]row, error) {
	var rows []row
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path := prefix + key.Value
		text, described := description(key.HeadComment)
		switch {
		case described:
			shown, err := compact(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			rows = append(rows, row{key: path, byDefault: shown, text: text})
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			below, err := walk(path+".", value)
			if err != nil {
				return nil, err
			}
			rows = append(rows, below...)
		default:
			return nil, fmt.Errorf("%s has no description: put a comment before it that begins with %q", path, mark)
		}
	}
	return rows, nil
}

func description(comment string) (string, bool) {
	_, text, found := strings.Cut(comment, mark)
	if !found {
		return "", false
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n# ", "\n")), " "), true
}

// compact is a value on one line.
func compact(value *yaml.Node) (string, error) {
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		return "", err
	}
	raw, err := json.Marshal(decoded)
	return string(raw), err
}

func write(w io.Writer, chart []byte, rows []row) error {
	var about struct{ Name, Description, Version, KubeVersion string }
	var raw map[string]any
	if err := yaml.Unmarshal(chart, &raw); err != nil {
		return fmt.Errorf("Chart.yaml: %w", err)
	}
	for field, to := range map[string]*string{"name": &about.Name, "description": &about.Description, "version": &about.Version, "kubeVersion": &about.KubeVersion} {
		*to, _ = raw[field].(string)
	}
	fmt.Fprintf(w, "<!-- Made by hack/chartdoc from values.yaml: change that and run hack/generate.sh. -->\n\n# %s\n\n%s. Kubernetes %s.\n\n",
		about.Name, about.Description, strings.TrimSuffix(about.KubeVersion, "-0"))
	fmt.Fprint(w, "How it is installed, upgraded and removed: `docs/operations/install.md`. `values.schema.json` says which values are valid.\n\n")
	fmt.Fprint(w, "## Values\n\n| value | default | meaning |\n|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(w, "| `%s` | `%s` | %s |\n", r.key, strings.ReplaceAll(r.byDefault, "|", `\|`), strings.ReplaceAll(r.text, "|", `\|`))
	}
	return nil
}
