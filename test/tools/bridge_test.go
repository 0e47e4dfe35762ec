package tools

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const others = "others/node_modules/@modelcontextprotocol/"

// bridge runs a server that speaks over standard input and output, and serves its tools over HTTP as they are. It returns
// the endpoint. The server gets only the environment that is named.
func bridge(t *testing.T, environment []string, script string, arguments ...string) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is missing: install Node.js 20 or newer, then run `make npm-tools`")
	}
	if _, err := os.Stat(others + script); err != nil {
		t.Fatalf("%s is not installed: run `make npm-tools` (or test/tools/others/install.sh)", filepath.Dir(script))
	}
	cmd := exec.Command(node, append([]string{others + script}, arguments...)...)
	cmd.Env = append([]string{"HOME=" + t.TempDir()}, environment...)
	client := sdk.NewClient(&sdk.Implementation{Name: "bridge", Version: "1"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	session, err := client.Connect(context.WithoutCancel(t.Context()), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() }) // a server that does not end by itself is killed
	server := sdk.NewServer(&sdk.Implementation{Name: "bridge", Version: "1"}, nil)
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		server.AddTool(tool, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return session.CallTool(ctx, &sdk.CallToolParams{Name: req.Params.Name, Arguments: req.Params.Arguments})
		})
	}
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	return web.URL
}
