package catalogue

import (
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

// objectName is what Kubernetes takes for the name of an object.
var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Manifest is a ModelProvider that declares some of the provider's models, as YAML with what has to be done and checked
// in comments. The object and the Secret that it names have the same name.
func (p Provider) Manifest(name string, models []Model) (string, error) {
	if !objectName.MatchString(name) {
		return "", fmt.Errorf("name %q: use up to 63 lower-case letters, digits and -, a letter or digit at both ends", name)
	}
	if len(models) > MaxModels {
		return "", fmt.Errorf("%s has %d models, and one ModelProvider declares at most %d: name those that are wanted with --model", p.ID, len(models), MaxModels)
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Suggested for %s from the catalogue %s, which may be out of date or wrong.", p.Name, Source)
	line("# Compare limits and prices with the provider's documentation. maxOutputTokens is what clients ask for by default: the")
	line("# model may take more. Once the object is applied, its condition ModelsVerified says what the provider itself tells.")
	line("#")
	line("# The Secret with the key:")
	line("#   kubectl create secret generic %s --from-file=api-key=FILE", name)
	line("#   kubectl label secret %s %s=%s", name, api.LabelCredential, api.ValueTrue)
	line("apiVersion: %s", api.GroupVersion)
	line("kind: %s", api.KindModelProvider)
	line("metadata:\n  name: %s\nspec:\n  protocol: %s", scalar(name), p.Protocol)
	if p.BaseURL != "" {
		line("  baseURL: %s", scalar(p.BaseURL))
	}
	line("  apiKeySecretRef:\n    name: %s\n    key: api-key\n  models:", scalar(name))
	for _, m := range models {
		m.write(line)
	}
	return b.String(), nil
}

func (m Model) write(line func(format string, args ...any)) {
	line("  - id: %s", scalar(m.ID))
	line("    contextWindow: %d", m.ContextWindow)
	line("    maxOutputTokens: %d", m.Output)
	if m.Thinking != api.ThinkingNone {
		line("    thinking: %s", m.Thinking)
	}
	if m.Images {
		line("    images: true")
	}
	if m.InputPrice == "" && m.OutPrice == "" {
		return
	}
	line("    price:")
	if m.InputPrice != "" {
		line("      inputPerMTok: %q", m.InputPrice)
	}
	if m.OutPrice != "" {
		line("      outputPerMTok: %q", m.OutPrice)
	}
}

// scalar is a string in YAML, quoted where it would be read as something else.
func scalar(text string) string {
	raw, err := yaml.Marshal(text)
	if err != nil {
		return fmt.Sprintf("%q", text)
	}
	return strings.TrimSpace(string(raw))
}
