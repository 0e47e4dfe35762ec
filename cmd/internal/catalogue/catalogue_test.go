package catalogue

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/kube"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// run runs the command; the error's text comes last.
func run(args ...string) (stdout, stderr string, err error) {
	var out, help bytes.Buffer
	err = Run(args, &out, &help)
	return out.String(), help.String(), err
}

// TestOutput pins what the command prints. It changes with the catalogue.
func TestOutput(t *testing.T) {
	cases := map[string][]string{
		"providers":     nil,
		"models":        {"--provider", "anthropic"},
		"table":         {"--provider", "openai", "--model", "gpt-5,gpt-4.1", "-o", "table"},
		"anthropic":     {"--provider", "anthropic", "--model", "claude-opus-5", "--model", "claude-sonnet-4-5-20250929"},
		"openai":        {"--provider", "openai", "--model", "gpt-5", "--name", "models"},
		"groq":          {"--provider", "groq", "-o", "yaml"},
		"only-provider": {"--model", "claude-haiku-4-5-20251001"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := run(args...)
			if err != nil || stderr != "" {
				t.Fatalf("error %v, stderr %q", err, stderr)
			}
			path := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(stdout), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), stdout); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

// TestErrors says what is known instead, and prints nothing else.
func TestErrors(t *testing.T) {
	cases := map[string]struct {
		args    []string
		want    string // a pattern
		unknown bool
	}{
		"an unknown provider":             {[]string{"--provider", "acme"}, `^provider "acme": not in the catalogue; known are aihubmix, .*, anthropic, .*, zhipu-coding$`, true},
		"one of another API":              {[]string{"--provider", "bedrock"}, `^provider bedrock: .*no protocol of ModelProviders is known for its API \(bedrock\); known are aihubmix, `, true},
		"an unknown model":                {[]string{"--provider", "anthropic", "--model", "claude-sonnet-9"}, `^model "claude-sonnet-9" of anthropic: not in the catalogue; it has claude-sonnet-4-20250514, .*claude-sonnet-5$`, true},
		"one that nothing resembles":      {[]string{"--provider", "anthropic", "--model", "zzz"}, `^model "zzz" of anthropic: not in the catalogue; list its models with --provider anthropic$`, true},
		"a model that nobody has":         {[]string{"--model", "zzz"}, `^no provider with zzz: not in the catalogue; list a provider's models with --provider$`, true},
		"a model that several have":       {[]string{"--model", "gpt-5"}, `^gpt-5 is offered by .*, openai, .*: choose one with --provider$`, false},
		"a model twice":                   {[]string{"--provider", "openai", "--model", "gpt-5,gpt-5"}, `^model gpt-5 is named twice$`, false},
		"more than an object takes":       {[]string{"--provider", "openrouter", "-o", "yaml"}, `^openrouter has \d+ models, and one ModelProvider declares at most 64: name those that are wanted with --model$`, false},
		"a name that cannot be":           {[]string{"--provider", "groq", "-o", "yaml", "--name", "A_B"}, `^name "A_B": use up to 63 lower-case letters`, false},
		"a name without a manifest":       {[]string{"--provider", "groq", "--name", "a"}, `^--name needs --model or -o yaml$`, false},
		"a manifest of nothing":           {[]string{"-o", "yaml"}, `^-o yaml needs --provider or --model$`, false},
		"another output":                  {[]string{"-o", "json"}, `^-o json: use table or yaml$`, false},
		"an argument":                     {[]string{"anthropic"}, `^unknown argument "anthropic"; see manager models --help$`, false},
		"a model without a name":          {[]string{"--model", "a,,b"}, `an id is empty$`, false},
		"a flag that it does not have":    {[]string{"--modell", "a"}, `-modell$`, false},
		"a provider's id in capital form": {[]string{"--provider", "Anthropic"}, `^provider "Anthropic": not in the catalogue; known are `, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stdout, _, err := run(tc.args...)
			if err == nil || !regexp.MustCompile(tc.want).MatchString(err.Error()) || errors.Is(err, ErrUnknown) != tc.unknown {
				t.Errorf("error %v, want %s", err, tc.want)
			}
			if stdout != "" {
				t.Errorf("printed %q", stdout)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	stdout, stderr, err := run("--help")
	if !errors.Is(err, flag.ErrHelp) || stdout != "" {
		t.Errorf("error %v, printed %q", err, stdout)
	}
	for _, part := range []string{"manager models --provider P --model M", "-provider", "-model", "-name", "-o "} {
		if !strings.Contains(stderr, part) {
			t.Errorf("help lacks %q:\n%s", part, stderr)
		}
	}
}

var decimal = regexp.MustCompile(`^[0-9]{1,9}([.][0-9]{1,9})?$`)

// TestEverySuggestionCanBeUsed declares every model of every provider, strictly, and computes its budget.
func TestEverySuggestionCanBeUsed(t *testing.T) {
	total := 0
	for _, p := range Providers() {
		for at := 0; at < len(p.Models); at += MaxModels {
			part := p.Models[at:min(at+MaxModels, len(p.Models))]
			text, err := p.Manifest(p.ID, part)
			if err != nil {
				t.Fatal(err)
			}
			object := &api.ModelProvider{}
			if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
				t.Fatalf("%s: %v\n%s", p.ID, err, text)
			}
			if object.Kind != api.KindModelProvider || object.APIVersion != api.GroupVersion.String() || object.Name != p.ID || len(object.Spec.Models) != len(part) {
				t.Errorf("%s: object %+v", p.ID, object)
			}
			if base := object.Spec.BaseURL; base != p.BaseURL || base != "" && !strings.HasPrefix(base, "https://") || strings.ContainsAny(base, "?#@$") {
				t.Errorf("%s: base URL %q", p.ID, base)
			}
			for i := range object.Spec.Models {
				total++
				usable(t, object, &object.Spec.Models[i], part[i])
			}
		}
	}
	if total < 1000 {
		t.Errorf("only %d models", total)
	}
}

func usable(t *testing.T, object *api.ModelProvider, declared *api.Model, m Model) {
	t.Helper()
	if declared.ID != m.ID || !modelID.MatchString(m.ID) || declared.ContextWindow != m.ContextWindow || declared.MaxOutputTokens != m.Output {
		t.Errorf("%s: declared %+v of %+v", object.Name, declared, m)
	}
	if declared.MaxOutputTokens < 1 || declared.MaxOutputTokens > declared.ContextWindow {
		t.Errorf("%s %s: output %d of a window of %d", object.Name, m.ID, declared.MaxOutputTokens, declared.ContextWindow)
	}
	if declared.Thinking == api.ThinkingFixedBudget && object.Spec.Protocol != api.ProtocolAnthropic {
		t.Errorf("%s %s: thinking %s", object.Name, m.ID, declared.Thinking)
	}
	if price := declared.Price; price != nil {
		for _, text := range []string{price.InputPerMTok, price.OutputPerMTok} {
			if text != "" && !decimal.MatchString(text) {
				t.Errorf("%s %s: price %q", object.Name, m.ID, text)
			}
		}
	}
	model, err := kube.ModelOf(object, declared)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := budget.ReserveFor(budget.Options{Model: model}); err != nil {
		t.Errorf("%s %s: %v", object.Name, m.ID, err)
	}
}

// TestSource holds the name that manifests give to the version that is built in.
func TestSource(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), "\t"+Source+"\n") {
		t.Errorf("go.mod does not require %s", Source)
	}
}

func TestPrice(t *testing.T) {
	for given, want := range map[float64]string{0: "", -1: "", 3: "3", 10: "10", 0.39999999999999997: "0.4", 0.075: "0.075", 1e-7: "0"} {
		if got := price(given); got != want {
			t.Errorf("%v: %q, want %q", given, got, want)
		}
	}
}

func TestScalar(t *testing.T) {
	for _, text := range []string{"gpt-5", "org/model:free", "1e3", "0x1F", "2024-01-01", "null", "true", "a:b", "a@b", "12:30:00"} {
		var got string
		if err := yaml.Unmarshal([]byte(scalar(text)), &got); err != nil || got != text {
			t.Errorf("%s is read as %q (%v)", scalar(text), got, err)
		}
	}
}
