package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"sigs.k8s.io/yaml"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/test/mcpserver"
	"github.com/agentloop/agentloop/test/modelserver"
)

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestModelIsChosenByTheKeysThatAreSet(t *testing.T) {
	anthropic, openai := realModels[0], realModels[1]
	cases := map[string]struct {
		env  []string
		want model
		err  string
	}{
		"no key: scripted":    {nil, scriptedModel, ""},
		"a blank key is none": {[]string{"OPENAI_API_KEY", " "}, scriptedModel, ""},
		"Anthropic before OpenAI": {[]string{"OPENAI_API_KEY", "sk-o", "ANTHROPIC_API_KEY", "sk-a\n"}, func() model {
			m := anthropic
			m.key = "sk-a"
			return m
		}(), ""},
		"another model is not asked to think": {[]string{"OPENAI_API_KEY", "sk-o", "DEMO_MODEL", "local", "DEMO_BASE_URL", "http://127.0.0.1:1/v1",
			"DEMO_PROTOCOL", "OpenAIChat", "DEMO_CONTEXT_WINDOW", "8192", "DEMO_MAX_OUTPUT", "2048"}, func() model {
			m := openai
			m.key, m.Model, m.BaseURL, m.Protocol = "sk-o", "local", "http://127.0.0.1:1/v1", "OpenAIChat"
			m.ContextWindow, m.MaxOutputTokens, m.Thinking, m.Effort = 8192, 2048, "None", "off"
			return m
		}(), ""},
		"fixed thinking exists in one protocol only": {[]string{"ANTHROPIC_API_KEY", "sk-a", "DEMO_PROTOCOL", "OpenAIChat"}, func() model {
			m := anthropic
			m.key, m.Protocol, m.Thinking, m.Effort = "sk-a", "OpenAIChat", "None", "off"
			return m
		}(), ""},
		"a window that is no number": {[]string{"OPENAI_API_KEY", "sk-o", "DEMO_CONTEXT_WINDOW", "8k"}, model{}, "use a number of tokens"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := chooseModel(environment(tc.env...))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(model{})); diff != "" {
				t.Errorf("model (-want +got):\n%s", diff)
			}
			if strings.Contains(got.about(), got.key) {
				t.Errorf("the key is shown: %s", got.about())
			}
		})
	}
}

func TestObjectsAreWhatTheAPIDefines(t *testing.T) {
	m := realModels[0]
	m.key, m.BaseURL = "very-secret", `http://127.0.0.1:1/"quoted`
	for name, into := range map[string]any{"provider": &api.ModelProvider{}, "session": &api.AgentSession{}, "runs": &api.AgentRun{}} {
		rendered, err := render(name, m, "http://127.0.0.1:2/mcp")
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(rendered, []byte(m.key)) {
			t.Errorf("%s holds the key", name)
		}
		for i, document := range bytes.Split(rendered, []byte("\n---\n")) {
			if err := yaml.UnmarshalStrict(document, into); err != nil {
				t.Errorf("%s %d: %v", name, i, err)
			}
		}
		if provider, ok := into.(*api.ModelProvider); ok && (provider.Spec.BaseURL != m.BaseURL || provider.Spec.Models[0].ID != m.Model) {
			t.Errorf("provider %+v", provider.Spec)
		}
	}
}

// TestScriptKnowsWhatTheToolsSay calls the tools as the script does, and wants the numbers that it goes on with.
func TestScriptKnowsWhatTheToolsSay(t *testing.T) {
	raw, err := objects.ReadFile("objects/model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := modelserver.ParseYAML(raw, "")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(mcpserver.New(mcpserver.Options{}))
	defer server.Close()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: server.URL + mcpserver.Path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	degrees := regexp.MustCompile(`-?\d+`)
	known, calls := map[string]bool{}, 0
	for _, reply := range scripts[0].Replies {
		for _, part := range reply.Content {
			if part.ToolCall == nil {
				for _, number := range degrees.FindAllString(said(part), -1) {
					if !known[number] {
						t.Errorf("the script says %s, which no tool has told: %s", number, said(part))
					}
				}
				continue
			}
			calls++
			arguments := part.ToolCall.Arguments
			for _, number := range degrees.FindAllString(string(arguments), -1) {
				if !known[strings.TrimPrefix(number, "-")] {
					t.Errorf("the script passes %s, which no tool has told: %s", number, arguments)
				}
			}
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: strings.TrimPrefix(part.ToolCall.Name, "desk__"), Arguments: arguments})
			if err != nil || result.IsError {
				t.Fatalf("%s %s: %v %+v", part.ToolCall.Name, arguments, err, result)
			}
			for _, number := range degrees.FindAllString(result.Content[0].(*mcp.TextContent).Text, -1) {
				known[number] = true
			}
		}
	}
	if calls != 4 {
		t.Errorf("%d calls, want 4", calls)
	}
}

func exported(lines ...string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }

func complete(records int, before ...string) string {
	return fmt.Sprintf(`{"type":"complete","records":%d,"sha256":"%x"}`, records, sha256.Sum256(exported(before...)))
}

func TestExportMustBeWhole(t *testing.T) {
	const header, one, two = `{"type":"trajectory"}`, `{"type":"entry","n":1}`, `{"type":"entry","n":2}`
	cases := map[string]struct {
		body []byte
		want int
		err  string
	}{
		"whole":                  {exported(header, one, two, complete(2, header, one, two)), 2, ""},
		"broken off":             {exported(header, one), 0, "no line of type complete"},
		"an entry is missing":    {exported(header, one, complete(2, header, one, two)), 0, "it has 1"},
		"an entry was changed":   {exported(header, one, two, complete(2, header, two, one)), 0, "digest"},
		"something follows":      {exported(header, complete(0, header), one), 0, "goes on after its end"},
		"no header":              {exported(one, complete(1, one)), 0, `type "entry"`},
		"a second header":        {exported(header, header, complete(0, header, header)), 0, `type "trajectory"`},
		"a line that is no JSON": {exported(header, "x"), 0, "line 2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := checkExport(tc.body)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, want one with %q", err, tc.err)
			}
			if got != tc.want {
				t.Errorf("%d entries, want %d", got, tc.want)
			}
		})
	}
}

func TestSecondInputMustBeginWithTheConversation(t *testing.T) {
	conversation := []byte(`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"b"}]},
		{"role":"user","content":"c"},{"role":"assistant","content":[{"type":"text","text":"d"}]}]`)
	row := func(source, role, content string) string {
		return fmt.Sprintf(`{"message":{"role":%q,"content":%s},"source":{"type":%q}}`, role, content, source)
	}
	first := []string{row("history", "user", `"a"`), row("runtime-context", "user", `"where"`), row("history", "assistant", `[{"type":"text","text":"b"}]`)}
	cases := map[string]struct {
		verified bool
		messages []string
		err      string
	}{
		"all of it":         {true, append(first[:3:3], row("history", "user", `[{"type":"text","text":"c"}]`)), ""},
		"not verified":      {false, append(first[:3:3], row("history", "user", `"c"`)), "verify"},
		"another answer":    {true, []string{first[0], row("history", "assistant", `"x"`), row("history", "user", `"c"`)}, "message 1"},
		"only the new one":  {true, []string{row("history", "user", `"c"`)}, "message 0"},
		"nothing of itself": {true, first, "1 prompts"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var fixed input
			raw := fmt.Sprintf(`{"verified":%t,"messages":[%s]}`, tc.verified, strings.Join(tc.messages, ","))
			if err := json.Unmarshal([]byte(raw), &fixed); err != nil {
				t.Fatal(err)
			}
			var said []message
			if err := json.Unmarshal(conversation, &said); err != nil {
				t.Fatal(err)
			}
			_, err := continues(fixed, said)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want one with %q", err, tc.err)
			}
		})
	}
}

func TestPageMustLoadItsFiles(t *testing.T) {
	const page = `<base href="/" /><link rel="icon" href="./assets/i.svg" /><script type="module" src="./assets/a.js"></script>`
	cases := map[string]struct {
		files map[string]string
		want  int
		err   string
	}{
		"all there":           {map[string]string{"/assets/i.svg": "image/svg+xml", "/assets/a.js": "text/javascript"}, 2, ""},
		"a file is missing":   {map[string]string{"/assets/i.svg": "image/svg+xml"}, 0, "404"},
		"the page for a file": {map[string]string{"/assets/i.svg": "image/svg+xml", "/assets/a.js": "text/html"}, 0, "want a script"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				kind, found := tc.files[r.URL.Path]
				switch {
				case r.Header.Get("Authorization") != "":
					http.Error(w, "a browser sends no token for files", http.StatusBadRequest)
				case r.URL.Path == trajectoryPath:
					w.Header().Set("Content-Type", "text/html; charset=utf-8")
					fmt.Fprint(w, page)
				case found:
					w.Header().Set("Content-Type", kind)
				default:
					http.NotFound(w, r)
				}
			}))
			defer server.Close()
			got, err := viewer{base: server.URL, token: "t"}.page(context.Background(), trajectoryPath)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, want one with %q", err, tc.err)
			}
			if got != tc.want {
				t.Errorf("%d files, want %d", got, tc.want)
			}
		})
	}
}

func TestArgumentsSayWhatToDo(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"no programs":         {nil, "make demo"},
		"nothing built":       {[]string{"-assets=a", "-services=b", "-bin=" + t.TempDir()}, "make demo"},
		"an unknown argument": {[]string{"now"}, "unknown argument"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(tc.args, environment()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out)
	s.say("%s", "two\nlines\n")
	if diff := cmp.Diff(margin+"two\n"+margin+"lines\n", out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Größe naïve", "— 22 °C", "averylongword", "b"}, strings.Split(wrap("Größe naïve — 22 °C averylongword b", 11), "\n")); diff != "" {
		t.Errorf("wrapped (-want +got):\n%s", diff)
	}
}

// said is what a part of a scripted answer tells its reader.
func said(part modelserver.Part) string {
	var out string
	for _, text := range []*modelserver.Text{part.Text, part.Thinking} {
		if text != nil {
			out += string(*text)
		}
	}
	return out
}
