package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/itchyny/gojq"
	"github.com/rogpeppe/go-internal/testscript"
)

// pollEvery is the pause between two looks of a bounded wait.
const pollEvery = 50 * time.Millisecond

// expand puts the script's variables into a file's text.
func expand(ts *testscript.TestScript, text string) string {
	return os.Expand(text, ts.Getenv)
}

// cmdExpand is "expandenv FILE...": replaces $NAME by the script's variables in place.
func cmdExpand(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("expandenv cannot fail")
	}
	for _, file := range args {
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(expand(ts, ts.ReadFile(file))), 0o600))
	}
}

// outcome settles a command that printed out and failed or not.
func outcome(ts *testscript.TestScript, neg bool, what string, stdout, stderr string, err error) {
	_, _ = io.WriteString(ts.Stdout(), stdout)
	_, _ = io.WriteString(ts.Stderr(), stderr)
	switch {
	case err != nil && !neg:
		ts.Fatalf("%s: %v\n%s%s", what, err, stdout, stderr)
	case err == nil && neg:
		ts.Fatalf("%s: succeeded, failure expected\n%s", what, stdout)
	}
}

// cmdKubectl is "kubectl ARGS": the real kubectl in the script's namespace. Variables in applied files are replaced.
func cmdKubectl(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	for i, arg := range args {
		if strings.HasSuffix(arg, ".yaml") && i > 0 && args[i-1] == "-f" {
			cmdExpand(ts, false, []string{arg})
		}
	}
	command := shared.Kubectl(ctx, append([]string{"--namespace", ts.Getenv("NS")}, args...)...)
	command.Dir = ts.MkAbs(".")
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	outcome(ts, neg, "kubectl "+strings.Join(args, " "), stdout.String(), stderr.String(), err)
}

// cmdModels is "models FILE": loads a model script; the namespace becomes the prefix of the model ids.
func cmdModels(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: models FILE")
	}
	_, err := shared.Models.LoadYAML([]byte(expand(ts, ts.ReadFile(args[0]))), ts.Getenv("NS")+"-")
	outcome(ts, neg, "models "+args[0], "", "", err)
}

type runView struct {
	Status struct {
		Conditions []struct{ Type, Status, Reason, Message string }
	}
}

func (v runView) condition(kind string) (status, reason, message string) {
	for _, c := range v.Status.Conditions {
		if c.Type == kind {
			return c.Status, c.Reason, c.Message
		}
	}
	return "", "", ""
}

func get(ts *testscript.TestScript, kind, name string) (runView, string) {
	var view runView
	args := []string{"--namespace", ts.Getenv("NS"), "get", kind, name, "-o", "json"}
	if name == "" { // the list
		args = slices.Delete(args, 4, 5)
	}
	raw, err := shared.Kubectl(context.Background(), args...).Output()
	if err != nil {
		return view, ""
	}
	ts.Check(json.Unmarshal(raw, &view))
	return view, string(raw)
}

// wait polls until done says so or the time is over.
func wait(limit time.Duration, done func() bool) bool {
	deadline := time.After(limit)
	look := time.NewTicker(pollEvery)
	defer look.Stop()
	for !done() {
		select {
		case <-look.C:
		case <-deadline:
			return done()
		}
	}
	return true
}

func parse(ts *testscript.TestScript, flags *flag.FlagSet, args []string) []string {
	flags.SetOutput(ts.Stderr())
	var rest []string
	for len(args) > 0 {
		ts.Check(flags.Parse(args))
		if flags.NArg() == 0 {
			break
		}
		rest = append(rest, flags.Arg(0))
		args = flags.Args()[1:]
	}
	return rest
}

// cmdWaitRun is "waitrun NAME [-for Succeeded|Failed|Cancelled|Live] [-reason R] [-timeout 30s]".
func cmdWaitRun(ts *testscript.TestScript, neg bool, args []string) {
	flags := flag.NewFlagSet("waitrun", flag.ContinueOnError)
	want := flags.String("for", "Succeeded", "")
	why := flags.String("reason", "", "")
	limit := flags.Duration("timeout", 60*time.Second, "")
	names := parse(ts, flags, args)
	if len(names) != 1 || neg {
		ts.Fatalf("usage: waitrun NAME [-for Succeeded|Failed|Cancelled|Live] [-reason R] [-timeout 30s]")
	}
	var raw string
	ok := wait(*limit, func() bool {
		var view runView
		view, raw = get(ts, "agentrun", names[0])
		status, reason, _ := view.condition("Succeeded")
		if *why != "" && reason != *why {
			return false
		}
		switch *want {
		case "Succeeded":
			return status == "True"
		case "Failed":
			return status == "False" && reason != "Cancelled"
		case "Cancelled":
			return status == "False" && reason == "Cancelled"
		case "Live":
			return status == "Unknown"
		}
		ts.Fatalf("waitrun -for %s: unknown", *want)
		return false
	})
	if !ok {
		ts.Fatalf("run %s is not %s %s after %s:\n%s", names[0], *want, *why, *limit, raw)
	}
}

// cmdWaitSession is "waitsession NAME [-for Ready|NotReady] [-reason R] [-timeout 30s]".
func cmdWaitSession(ts *testscript.TestScript, neg bool, args []string) {
	flags := flag.NewFlagSet("waitsession", flag.ContinueOnError)
	want := flags.String("for", "Ready", "")
	why := flags.String("reason", "", "")
	limit := flags.Duration("timeout", 60*time.Second, "")
	names := parse(ts, flags, args)
	if len(names) != 1 || neg {
		ts.Fatalf("usage: waitsession NAME [-for Ready|NotReady] [-reason R] [-timeout 30s]")
	}
	var raw string
	ok := wait(*limit, func() bool {
		var view runView
		view, raw = get(ts, "agentsession", names[0])
		status, reason, _ := view.condition("Ready")
		if *why != "" && reason != *why {
			return false
		}
		return *want == "Ready" && status == "True" || *want == "NotReady" && status == "False"
	})
	if !ok {
		ts.Fatalf("session %s is not %s %s after %s:\n%s", names[0], *want, *why, *limit, raw)
	}
}

// cmdHTTP is "http [-token T|-anon] [-status 200] METHOD PATH [-o FILE]": asks the viewer.
func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	flags := flag.NewFlagSet("http", flag.ContinueOnError)
	token := flags.String("token", ts.Getenv("TOKEN"), "")
	anonymous := flags.Bool("anon", false, "")
	want := flags.Int("status", http.StatusOK, "")
	file := flags.String("o", "", "")
	rest := parse(ts, flags, args)
	if len(rest) != 2 || neg {
		ts.Fatalf("usage: http [-token T|-anon] [-status 200] METHOD PATH [-o FILE]")
	}
	request, err := http.NewRequestWithContext(context.Background(), rest[0], shared.ViewerURL+rest[1], nil)
	ts.Check(err)
	if !*anonymous {
		request.Header.Set("Authorization", "Bearer "+*token)
	}
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	if response.StatusCode != *want {
		ts.Fatalf("%s %s: %d, want %d\n%s", rest[0], rest[1], response.StatusCode, *want, body)
	}
	if *file != "" {
		ts.Check(os.WriteFile(ts.MkAbs(*file), body, 0o600))
		return
	}
	_, _ = ts.Stdout().Write(body)
}

func emit(ts *testscript.TestScript, file string, raw []byte) {
	if file != "" {
		ts.Check(os.WriteFile(ts.MkAbs(file), raw, 0o600))
		return
	}
	_, _ = ts.Stdout().Write(raw)
}

// cmdRequests is "requests MODEL [-o FILE]": what the model server was sent, a JSON array.
func cmdRequests(ts *testscript.TestScript, neg bool, args []string) {
	flags := flag.NewFlagSet("requests", flag.ContinueOnError)
	file := flags.String("o", "", "")
	rest := parse(ts, flags, args)
	if len(rest) != 1 || neg {
		ts.Fatalf("usage: requests MODEL [-o FILE]")
	}
	raw, err := json.Marshal(shared.Models.Requests(rest[0]))
	ts.Check(err)
	emit(ts, *file, append(raw, '\n'))
}

// cmdWaitRequests is "waitrequests MODEL N [-timeout 30s]": waits until the model server was sent N requests.
func cmdWaitRequests(ts *testscript.TestScript, _ bool, args []string) {
	flags := flag.NewFlagSet("waitrequests", flag.ContinueOnError)
	limit := flags.Duration("timeout", 60*time.Second, "")
	rest := parse(ts, flags, args)
	if len(rest) != 2 {
		ts.Fatalf("usage: waitrequests MODEL N [-timeout 30s]")
	}
	want := number(ts, rest[1])
	if !wait(*limit, func() bool { return len(shared.Models.Requests(rest[0])) >= want }) {
		ts.Fatalf("%s got %d requests after %s, want %d", rest[0], len(shared.Models.Requests(rest[0])), *limit, want)
	}
}

// cmdJQ is "jq [-r] [-s] EXPR FILE": one result a line. FILE may hold several JSON values, as NDJSON does; -s makes them
// one array, -r prints strings without quotes.
func cmdJQ(ts *testscript.TestScript, neg bool, args []string) {
	flags := flag.NewFlagSet("jq", flag.ContinueOnError)
	raw := flags.Bool("r", false, "")
	slurp := flags.Bool("s", false, "")
	flags.Bool("c", true, "")
	rest := parse(ts, flags, args)
	if len(rest) != 2 {
		ts.Fatalf("usage: jq [-r] [-s] EXPR FILE")
	}
	query, err := gojq.Parse(expand(ts, rest[0]))
	ts.Check(err)
	values := readValues(ts, rest[1])
	if *slurp {
		values = []any{values}
	}
	var out strings.Builder
	var failed error
	for _, value := range values {
		if err := runQuery(query, value, *raw, &out); err != nil {
			failed = err
		}
	}
	outcome(ts, neg, "jq "+rest[0], out.String(), "", failed)
}

func readValues(ts *testscript.TestScript, file string) []any {
	decoder := json.NewDecoder(strings.NewReader(ts.ReadFile(file)))
	values := []any{}
	for {
		var value any
		err := decoder.Decode(&value)
		if err == io.EOF {
			return values
		}
		ts.Check(err)
		values = append(values, value)
	}
}

func runQuery(query *gojq.Query, value any, raw bool, out *strings.Builder) error {
	results := query.Run(value)
	for {
		result, more := results.Next()
		if !more {
			return nil
		}
		if err, isErr := result.(error); isErr {
			return err
		}
		if text, isText := result.(string); raw && isText {
			out.WriteString(text + "\n")
			continue
		}
		line, err := gojq.Marshal(result)
		if err != nil {
			return err
		}
		out.Write(append(line, '\n'))
	}
}
