// Package mcpserver is a small MCP server over streamable HTTP with deterministic tools, for tests and the demo.
//
// Guarantees: what a tool with an effect did is recorded before its answer is sent and can be read, so that a test can
// prove that nothing ran twice; a tool that waits can be released from outside or ends with its caller; nothing depends
// on time or chance.
package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Path is where the MCP endpoint is.
const Path = "/mcp"

const (
	// maxBig bounds what the tool big makes, in bytes.
	maxBig = 256 << 20
	// idleSession is how long a session is kept whose client has gone without a word.
	idleSession = 10 * time.Minute
)

// Options tune a server. The zero value is usable.
type Options struct {
	// Version is what the server says of itself; "1.0.0" when empty.
	Version string
}

// Server is an http.Handler: the MCP endpoint at Path, and beside it for tests
//
//	GET  /_effects?part=TEXT  the effects, those whose text contains TEXT, as a JSON array of {tool, text}
//	GET  /_started?key=KEY    how many calls of waiting tools with that key have begun, as a number
//	POST /_release?key=KEY    lets the waiting calls with that key end, later ones too
//	POST /_forget             ends all sessions, as a restart would
type Server struct {
	mux    *http.ServeMux
	server *mcp.Server

	mu       sync.Mutex
	effects  []Effect
	started  map[string]int
	released map[string]chan struct{}
}

// Effect is one thing that a tool did.
type Effect struct {
	Tool string `json:"tool"`
	Text string `json:"text"`
}

// New returns a server.
func New(opts Options) *Server {
	if opts.Version == "" {
		opts.Version = "1.0.0"
	}
	s := &Server{mux: http.NewServeMux(), started: map[string]int{}, released: map[string]chan struct{}{}}
	s.server = mcp.NewServer(&mcp.Implementation{Name: "agentloop-demo-tools", Version: opts.Version}, nil)
	s.register(s.server)
	s.mux.Handle(Path, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.server }, &mcp.StreamableHTTPOptions{SessionTimeout: idleSession}))
	s.mux.HandleFunc("GET /_effects", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, s.Effects(r.FormValue("part"))) })
	s.mux.HandleFunc("GET /_started", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, s.Started(r.FormValue("key"))) })
	s.mux.HandleFunc("POST /_release", func(w http.ResponseWriter, r *http.Request) {
		s.Release(r.FormValue("key"))
		w.WriteHeader(http.StatusNoContent)
	})
	s.mux.HandleFunc("POST /_forget", func(w http.ResponseWriter, _ *http.Request) {
		s.Forget()
		w.WriteHeader(http.StatusNoContent)
	})
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the caller has gone away otherwise
}

// Effects lists what tools did, in order; only texts that contain part.
func (s *Server) Effects(part string) []Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Effect{}
	for _, e := range s.effects {
		if strings.Contains(e.Text, part) {
			out = append(out, e)
		}
	}
	return out
}

// Started is how many calls of the waiting tools with that key have begun.
func (s *Server) Started(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started[key]
}

// Release lets calls of slow with that key end, those that are still to come too.
func (s *Server) Release(key string) {
	gate := s.gate(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-gate:
	default:
		close(gate)
	}
}

// Forget ends all sessions; clients learn of it with their next request.
func (s *Server) Forget() {
	for session := range s.server.Sessions() {
		_ = session.Close() // it may have ended meanwhile
	}
}

func (s *Server) gate(key string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released[key] == nil {
		s.released[key] = make(chan struct{})
	}
	return s.released[key]
}

func (s *Server) begin(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started[key]++
}

func (s *Server) effect(tool, text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.effects = append(s.effects, Effect{Tool: tool, Text: text})
	return len(s.effects)
}

type pair struct {
	A float64 `json:"a" jsonschema:"the first number"`
	B float64 `json:"b" jsonschema:"the second number"`
}

type place struct {
	City string `json:"city" jsonschema:"the city's name"`
}

type note struct {
	Text string `json:"text" jsonschema:"what to write down"`
}

type keyed struct {
	Key string `json:"key" jsonschema:"names the call, so that it can be released"`
}

type size struct {
	Bytes int `json:"bytes" jsonschema:"how long the text is"`
}

type words struct {
	Message string `json:"message" jsonschema:"what the error says"`
}

type nothing struct{}

// readOnly marks tools without an effect.
var readOnly = &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// onePixel is a PNG image of one pixel.
var onePixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89" +
	"\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82")

func (s *Server) register(server *mcp.Server) {
	mcp.AddTool(server, &mcp.Tool{Name: "add", Description: "Adds two numbers.", Annotations: readOnly},
		func(_ context.Context, _ *mcp.CallToolRequest, in pair) (*mcp.CallToolResult, any, error) {
			return text(fmt.Sprint(in.A + in.B)), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "weather", Description: "Tells the weather in a city.", Annotations: readOnly},
		func(_ context.Context, _ *mcp.CallToolRequest, in place) (*mcp.CallToolResult, any, error) {
			return text(forecast(in.City)), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "append_note", Description: "Writes a note down. Each call writes one more."},
		func(_ context.Context, _ *mcp.CallToolRequest, in note) (*mcp.CallToolResult, any, error) {
			return text(fmt.Sprintf("note %d written", s.effect("append_note", in.Text))), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "slow_note", Description: "Writes a note down and answers only when it is released."},
		func(ctx context.Context, req *mcp.CallToolRequest, in keyed) (*mcp.CallToolResult, any, error) {
			s.effect("slow_note", in.Key)
			return s.wait(ctx, req, in.Key)
		})
	mcp.AddTool(server, &mcp.Tool{Name: "slow", Description: "Answers only when it is released; has no effect.", Annotations: readOnly},
		func(ctx context.Context, req *mcp.CallToolRequest, in keyed) (*mcp.CallToolResult, any, error) {
			return s.wait(ctx, req, in.Key)
		})
	mcp.AddTool(server, &mcp.Tool{Name: "big", Description: "Returns a long text.", Annotations: readOnly},
		func(_ context.Context, _ *mcp.CallToolRequest, in size) (*mcp.CallToolResult, any, error) {
			if in.Bytes < 0 || in.Bytes > maxBig {
				return nil, nil, fmt.Errorf("bytes must be between 0 and %d", maxBig)
			}
			return text(string(bytes.Repeat([]byte("0123456789abcde\n"), in.Bytes/16+1)[:in.Bytes])), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "fail", Description: "Fails with a message.", Annotations: readOnly},
		func(_ context.Context, _ *mcp.CallToolRequest, in words) (*mcp.CallToolResult, any, error) {
			return nil, nil, fmt.Errorf("%s", in.Message)
		})
	mcp.AddTool(server, &mcp.Tool{Name: "image", Description: "Returns a small image.", Annotations: readOnly},
		func(context.Context, *mcp.CallToolRequest, nothing) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "one pixel"}, &mcp.ImageContent{Data: onePixel, MIMEType: "image/png"}}}, nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "hang", Description: "Never answers.", Annotations: readOnly},
		func(ctx context.Context, _ *mcp.CallToolRequest, _ nothing) (*mcp.CallToolResult, any, error) {
			s.begin("hang")
			<-ctx.Done()
			return nil, nil, ctx.Err()
		})
}

// wait reports that it waits, if the caller wants to know, and waits.
func (s *Server) wait(ctx context.Context, req *mcp.CallToolRequest, key string) (*mcp.CallToolResult, any, error) {
	s.begin(key)
	if token := req.Params.GetProgressToken(); token != nil {
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Message: "waiting for " + key})
	}
	select {
	case <-s.gate(key):
		return text("released"), nil, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// forecast is made up, the same for the same city.
func forecast(city string) string {
	skies := []string{"clear", "cloudy", "light rain", "fog", "windy"}
	n := 0
	for _, c := range city {
		n = (n*31 + int(c)) % 1000
	}
	return fmt.Sprintf("%s: %s, %d °C", city, skies[n%len(skies)], 5+n%25)
}
