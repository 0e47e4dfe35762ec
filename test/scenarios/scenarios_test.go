// Package scenarios tells whole-path stories on a real API server, NATS, S3, the manager and viewer binaries and the
// scripted model server: one script per story, one namespace per script.
package scenarios

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agentloop/agentloop/test/world"
)

// shared is the world of all scripts; serial ones restart its parts.
var shared *world.World

func TestMain(m *testing.M) {
	os.Exit(world.Suite{
		Name: "scenarios", Target: "test-scenarios", Run: m.Run,
		Options: world.Options{
			ManagerFlags: []string{"--ack-wait=4s", "--heartbeat=500ms", "--presence-ttl=4s", "--heads-interval=50ms", "--drain-timeout=2s"},
			Faults:       true,
		},
		Ready: func(w *world.World) error {
			shared = w
			return nil
		},
	}.Main())
}

// TestScenarios runs the scripts that share the world.
func TestScenarios(t *testing.T) {
	t.Run("parallel", func(t *testing.T) { testscript.Run(t, params(t, scripts(t, false))) })
	t.Run("serial", func(t *testing.T) {
		files := scripts(t, true)
		for _, file := range files {
			p := params(t, []string{plain(t, file)})
			// A group of its own: the script has ended when t.Run returns, before the next one starts.
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { testscript.Run(t, p) })
		}
	})
}

// scripts lists the scripts that are serial, or those that are not: a serial one says so in its first line.
func scripts(t *testing.T, serial bool) []string {
	t.Helper()
	var files []string
	for _, dir := range []string{"testdata", os.Getenv("AGENTLOOP_SCENARIOS")} {
		if dir == "" {
			continue
		}
		found, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.HasPrefix(raw, []byte(serialMark)) == serial {
				files = append(files, file)
			}
		}
	}
	if len(files) == 0 {
		t.Fatalf("there is no script (serial %v)", serial)
	}
	return files
}

var namespaces atomic.Int64

// serialMark is the first line of a script that restarts parts of the world and so must run alone.
const serialMark = "[serial]"

// plain is a copy of a serial script without its mark, which the script language would take for a condition.
func plain(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(path, append([]byte("# serial"), bytes.TrimPrefix(raw, []byte(serialMark))...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func params(t *testing.T, files []string) testscript.Params {
	t.Helper()
	return testscript.Params{
		Files: files,
		Setup: setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"kubectl": cmdKubectl, "models": cmdModels, "waitrun": cmdWaitRun, "waitsession": cmdWaitSession, "http": cmdHTTP,
			"requests": cmdRequests, "events": cmdEvents, "jq": cmdJQ, "nats": cmdNATS, "s3": cmdS3, "manager": cmdManager, "chaos": cmdChaos,
			"effects": cmdEffects, "release": cmdRelease, "waitrequests": cmdWaitRequests, "waiteffects": cmdWaitEffects, "expandenv": cmdExpand, "waitfor": cmdWaitFor,
			"page": cmdPage, "waitevents": cmdWaitEvents, "verify": cmdVerify, "approve": cmdApprove, "slots": cmdSlots,
			"tool": cmdTool, "stored": cmdStored, "stores": cmdStores, "archiving": cmdArchiving, "aged": cmdAged,
			"told": cmdTold, "metrics": cmdMetrics, "outage": cmdOutage, "apiserver": cmdAPIServer, "roles": cmdRoles, "worker": cmdWorker, "recovered": cmdRecovered,
		},
		RequireExplicitExec: true,
	}
}

// The objects that most stories need, as files beside the script. Scripts apply them themselves, or others of their own.
var common = map[string]string{
	"provider.yaml": `apiVersion: v1
kind: Secret
metadata:
  name: model-key
  labels: {agentloop.dev/credential: "true"}
stringData: {key: secret-key-of-$NS}
---
apiVersion: agentloop.dev/v1alpha1
kind: ModelProvider
metadata: {name: models}
spec:
  protocol: Anthropic
  baseURL: $MODELS
  apiKeySecretRef: {name: model-key, key: key}
  retry: {maxAttempts: 3, maxDelaySeconds: 5}
  models:
  - {id: $NS-demo, contextWindow: 32000, maxOutputTokens: 4096}
`,
	"session.yaml": `apiVersion: agentloop.dev/v1alpha1
kind: AgentSession
metadata: {name: chat}
spec:
  model: {providerRef: {name: models}, model: $NS-demo}
  resultPreview: "On"
  instructions:
  - {name: project, text: "Answer briefly."}
  toolServers:
  - name: tools
    url: $TOOLS/mcp
    allow: ["*"]
    retrySafe: ["add", "slow", "weather"]
    declaration: Direct
`,
	"run.yaml": `apiVersion: agentloop.dev/v1alpha1
kind: AgentRun
metadata: {name: first}
spec:
  sessionRef: {name: chat}
  input: {text: "Do what the script says."}
`,
	"second.yaml": `apiVersion: agentloop.dev/v1alpha1
kind: AgentRun
metadata: {name: second}
spec:
  sessionRef: {name: chat}
  input: {text: "And once more."}
`,
}

// The longest prompt that a resource takes, and one byte more.
var (
	wholePrompt = strings.Repeat("0123456789abcdef", 4096)
	longPrompt  = wholePrompt + "!"
)

// setup gives each script a namespace of its own and the files of common.
func setup(env *testscript.Env) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := fmt.Sprintf("sc-%d-%d", os.Getpid(), namespaces.Add(1))
	if err := shared.Namespace(ctx, name); err != nil {
		return err
	}
	for file, text := range common {
		path := filepath.Join(env.WorkDir, file)
		if _, err := os.Stat(path); err == nil {
			continue // the script brings its own
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	for file, raw := range map[string][]byte{
		"broken.bin": []byte("half a character: \xe2\x82, and a stray byte: \xff."),
		"pixel.png":  []byte("\x89PNG\r\n\x1a\n"),
	} {
		if err := os.WriteFile(filepath.Join(env.WorkDir, file), raw, 0o600); err != nil {
			return err
		}
	}
	token, err := shared.ViewerToken(ctx, name)
	if err != nil {
		return err
	}
	for key, value := range map[string]string{
		"NS": name, "VIEWER": shared.ViewerURL, "MODELS": shared.ModelsURL, "TOOLS": shared.ToolsURL, "TOKEN": token,
		"WHOLE_PROMPT": wholePrompt, "LONG_PROMPT": longPrompt, "KUBECONFIG": shared.Kubeconfig, "HOME": env.WorkDir,
		"MANAGER": filepath.Join(shared.Bin, "manager"),
	} {
		env.Setenv(key, value)
	}
	env.Defer(func() {
		out, err := shared.Kubectl(context.Background(), "delete", "namespace", name, "--wait=false").CombinedOutput()
		if err != nil {
			env.T().Log("delete the namespace: ", string(out))
		}
	})
	return nil
}
