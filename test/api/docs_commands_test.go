package api

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// program is something that documents call and whose own help says what it takes.
type program struct {
	path   string
	before []string // words before the subcommand
	known  map[string]help
}

// help is what a program says about a command: its words, and the flags that it takes.
type help struct {
	words int
	flags map[string]bool
	text  string
}

// helpFlag is a flag in a help text, of Go's flag package, of cobra or of kubectl.
var helpFlag = regexp.MustCompile(`(?m)^ +(?:(-[A-Za-z]), )?(--?[A-Za-z][A-Za-z0-9.-]*)`)

func (p *program) run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, append(slices.Clone(p.before), args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+world.kubeconfig)
	out, _ := cmd.CombinedOutput() // programs differ in how they end after their help
	return string(out)
}

// command finds the subcommand that words begin with, and its help.
func (p *program) command(t *testing.T, words []string) help {
	t.Helper()
	best := p.help(t, nil)
	for n := 1; n <= min(3, len(words)) && regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(words[n-1]); n++ {
		if !regexp.MustCompile(`(?m)^ +(?:manager |viewer )?` + words[n-1] + `(?: |,|$)`).MatchString(best.text) {
			break
		}
		best = p.help(t, words[:n])
	}
	return best
}

func (p *program) help(t *testing.T, words []string) help {
	t.Helper()
	key := strings.Join(words, " ")
	if known, ok := p.known[key]; ok {
		return known
	}
	text := p.run(t, append(slices.Clone(words), "--help")...)
	h := help{words: len(words), flags: map[string]bool{"--help": true, "-h": true}, text: text}
	if strings.HasSuffix(p.path, "kubectl") {
		text += p.run(t, "options")
	}
	for _, match := range helpFlag.FindAllStringSubmatch(text, -1) {
		h.flags["--"+strings.TrimLeft(match[2], "-")] = true
		h.flags[match[1]] = true
	}
	p.known[key] = h
	return h
}

// programs are ours, built for this, and the kubectl of the control plane.
func programs(t *testing.T) map[string]*program {
	t.Helper()
	bin := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin+"/", "./cmd/...")
	cmd.Dir = top
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out := map[string]*program{"kubectl": {path: filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), known: map[string]help{}}}
	built, err := filepath.Glob(filepath.Join(bin, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range built {
		name := filepath.Base(path)
		out[name] = &program{path: path, known: map[string]help{}}
		if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
			out["kubectl "+plugin] = out[name]
		}
	}
	return out
}

// call is a program with its arguments, as a line of a document has it.
type call struct {
	at   string
	args []string
}

var (
	separators = regexp.MustCompile(`\|\||&&|\$\(|[|;()]|<\(`)
	quoted     = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	assignment = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*=`)
	heredoc    = regexp.MustCompile(`<<-?'?([A-Z]+)'?`)
)

// calls finds what the lines of a shell call. What quotes hold is an argument and nothing else.
func calls(at, text string) []call {
	var out []call
	text = strings.ReplaceAll(text, "\\\n", " ")
	end := ""
	for _, line := range strings.Split(text, "\n") {
		if end != "" {
			if strings.TrimSpace(line) == end {
				end = ""
			}
			continue
		}
		if match := heredoc.FindStringSubmatch(line); match != nil {
			end = match[1]
		}
		line = quoted.ReplaceAllStringFunc(strings.TrimPrefix(strings.TrimSpace(line), "$ "), func(s string) string {
			return regexp.MustCompile(`[^=]`).ReplaceAllString(s, "Q")
		})
		line, _, _ = strings.Cut(line, " #")
		for _, part := range separators.Split(line, -1) {
			words := strings.Fields(part)
			for len(words) > 0 && (assignment.MatchString(words[0]) || slices.Contains([]string{"do", "then", "while", "exec", "nohup", "time", "sudo", "!"}, words[0])) {
				words = words[1:]
			}
			if len(words) > 0 {
				out = append(out, call{at: at, args: words})
			}
		}
	}
	return out
}

// documentedCalls are those of blocks of commands, and those in sentences that have more than the program's name.
func documentedCalls(t *testing.T) []call {
	t.Helper()
	var out []call
	for path, text := range documents(t) {
		blocks, prose := fences(path, text)
		for _, block := range blocks {
			if slices.Contains([]string{"", "sh", "bash", "console"}, block.lang) {
				out = append(out, calls(path, block.text)...)
			}
		}
		for _, match := range inlineCode.FindAllStringSubmatch(prose, -1) {
			if found := calls(path, match[1]); len(found) > 0 && len(found[0].args) > 1 {
				out = append(out, found...)
			}
		}
	}
	return out
}

// TestDocCommands wants the commands that documents call to exist: our programs and kubectl with their subcommands and flags,
// scripts and packages as files.
func TestDocCommands(t *testing.T) {
	known := programs(t)
	t.Run("calls", func(t *testing.T) { checkCalls(t, known) })
	t.Run("flags in sentences", func(t *testing.T) { checkFlags(t, known) })
}

func checkCalls(t *testing.T, known map[string]*program) {
	t.Helper()
	checked := map[string]int{}
	for _, c := range documentedCalls(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(c.args[0], "./"), "bin/")
		args := c.args[1:]
		if len(args) > 0 && known[name+" "+args[0]] != nil {
			name, args = name+" "+args[0], args[1:]
		}
		switch p := known[name]; {
		case p != nil:
			checked[name]++
			checkCall(t, c.at, name, p, args)
		case strings.HasPrefix(name, "hack/"):
			checked["hack"]++
			if info, err := os.Stat(filepath.Join(top, name)); err != nil || info.Mode()&0o111 == 0 {
				t.Errorf("%s calls %s, which is no program: %v", c.at, name, err)
			}
		case name == "go" && len(args) > 1:
			for _, arg := range args[1:] {
				if folder, ok := strings.CutPrefix(strings.TrimSuffix(arg, "/..."), "./"); ok {
					if _, err := os.Stat(filepath.Join(top, folder)); err != nil {
						t.Errorf("%s names the package %s: %v", c.at, arg, err)
					}
				}
			}
		}
	}
	for _, name := range []string{"manager", "viewer", "kubectl", "hack"} {
		if checked[name] < 2 {
			t.Errorf("%d calls of %s: this test no longer finds them", checked[name], name)
		}
	}
}

// global are the flags before a subcommand, of which those without "=" take the next word.
func global(args []string) (flags, rest []string) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "--" {
		flags, args = append(flags, args[0]), args[1:]
		if !strings.Contains(flags[len(flags)-1], "=") && len(args) > 0 {
			args = args[1:]
		}
	}
	return flags, args
}

func checkCall(t *testing.T, at, name string, p *program, args []string) {
	t.Helper()
	var first []string
	if strings.HasPrefix(name, "kubectl") {
		first, args = global(args)
	}
	h := p.command(t, args)
	rest := args[h.words:]
	if h.words == 0 && len(rest) > 0 && regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(rest[0]) {
		t.Errorf("%s calls %s %s, which is no command of it", at, name, rest[0])
		return
	}
	for _, arg := range append(first, rest...) {
		if arg == "--" {
			return
		}
		flag, _, _ := strings.Cut(strings.TrimRight(arg, ".,:"), "=")
		if !regexp.MustCompile(`^--?[A-Za-z][A-Za-z0-9-]*$`).MatchString(flag) {
			continue
		}
		if !strings.HasPrefix(flag, "--") && h.flags["-"+flag] {
			continue // Go's flags may begin with one dash
		}
		if !h.flags[flag] {
			t.Errorf("%s calls %s %s with %s, which it does not take", at, name, strings.Join(args[:h.words], " "), flag)
		}
	}
}

// foreignFlags are flags in sentences that belong to programs of others.
var foreignFlags = map[string]bool{
	"--max-model-len": true, "--enable-auto-tool-choice": true, "--tool-call-parser": true, // vLLM
	"--stateful": true, "--read-only": true, // tool servers
	"--set": true, "--take-ownership": true, "--values": true, "--reset-then-reuse-values": true, "--wait": true, // helm
}

// checkFlags wants every flag that a sentence names to be one of our programs' or of kubectl's.
func checkFlags(t *testing.T, known map[string]*program) {
	t.Helper()
	flags := map[string]bool{}
	subcommand := regexp.MustCompile(`(?m)^ +(?:manager )?([a-z][a-z-]+)(?: |$)`)
	for name, p := range known {
		top := p.help(t, nil)
		all := []help{top}
		if name != "kubectl" {
			for _, match := range subcommand.FindAllStringSubmatch(top.text, -1) {
				all = append(all, p.help(t, []string{match[1]}))
			}
		}
		for _, h := range all {
			for flag := range h.flags {
				flags[flag] = true
			}
		}
	}
	span := regexp.MustCompile(`^(--[a-z][a-z0-9-]*)(?:=\S*)?$`)
	found := 0
	for path, text := range documents(t) {
		_, prose := fences(path, text)
		for _, match := range inlineCode.FindAllStringSubmatch(prose, -1) {
			flag := span.FindStringSubmatch(match[1])
			if flag == nil {
				continue
			}
			found++
			if !flags[flag[1]] && !foreignFlags[flag[1]] {
				t.Errorf("%s names %s, which no program of ours takes", path, flag[1])
			}
		}
	}
	if found < 30 {
		t.Errorf("%d flags: this test no longer finds them", found)
	}
}

func TestCalls(t *testing.T) {
	cases := map[string]struct {
		text string
		want []string
	}{
		"a prompt and a continuation": {"$ manager --a=1 \\\n  --b", []string{"manager --a=1 --b"}},
		"variables before it":         {"A=1 B=2 make demo", []string{"make demo"}},
		"a pipe and a list":           {"kubectl get x | while read a; do manager verify --quiet || echo b; done", []string{"kubectl get x", "read a", "manager verify --quiet", "echo b", "done"}},
		"a command in a command":      {"A=$(hack/x.sh) go test ./a", []string{"hack/x.sh", "go test ./a"}},
		"what stands behind it":       {"kubectl get x   # of the --manager", []string{"kubectl get x"}},
		"quotes":                      {`kubectl patch x -p '{"a": "--b | c"}'`, []string{"kubectl patch x -p QQQQQQQQQQQQQQQQQQ"}},
		"a text that is handed in":    {"kubectl apply -f - <<EOF\nmanager --nothing\nEOF\nmake x", []string{"kubectl apply -f - <<EOF", "make x"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, one := range calls("a.md", c.text) {
				got = append(got, strings.Join(one.args, " "))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
