// Package sdktest drives the scripted model server with the providers' own clients and with the adapters of this
// project. It guarantees that what the server sends is what these clients read, and that what they send back of it is
// accepted. It stands apart from the server's package because the providers' clients take minutes to compile.
package sdktest

import (
	"net/http/httptest"
	"testing"

	"github.com/agentloop/agentloop/test/modelserver"
)

// script calls a tool after thinking and answers the result.
const script = `
model: m
window: 1000
maxTokens: 4096
apiKey: sk-test
replies:
  - match: {hasToolResult: false}
    content: [{thinking: I should add.}, {text: Adding.}, {toolCall: {id: c1, name: add, arguments: {a: 1.50, b: "ü<"}}}]
    usage: {input: 10, output: 20, cacheRead: 30, cacheWrite: 40, reasoning: 5}
    chunks: 4
    repeat: true
  - match: {hasToolResult: true}
    content: [{text: It is 3.}]
    repeat: true
---
model: cut
apiKey: sk-test
replies:
  - match: {lastUser: truncate}
    truncate: {afterChunks: 2}
  - match: {lastUser: drop}
    drop: {afterChunks: 2}
  - match: {lastUser: overload}
    error: {status: 529, type: overloaded_error, code: server_error, message: Overloaded, afterChunks: 2}
  - match: {lastUser: limit}
    error: {status: 429, retryAfter: 7}
  - match: {lastUser: length}
    content: [{toolCall: {id: c1, name: add, rawArguments: '{"a": 1'}}]
    stopReason: length
  - match: {lastUser: silent}
    content: [{text: x}]
    usage: {}
`

const (
	key        = "sk-test"
	thought    = "I should add."
	said       = "Adding."
	arguments  = `{"a":1.5,"b":"ü<"}`
	finally    = "It is 3."
	toolResult = "3"
)

// serve starts a server with the script and returns its URL.
func serve(t *testing.T) string {
	t.Helper()
	s := modelserver.New(modelserver.Options{})
	if _, err := s.LoadYAML([]byte(script), ""); err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		ts.Close()
	})
	return ts.URL
}
