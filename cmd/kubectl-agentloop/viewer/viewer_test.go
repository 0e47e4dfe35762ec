package viewer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/cluster"
)

// serve answers as a viewer that knows one token.
func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right" {
			http.Error(w, `{"title":"Not signed in","status":401,"detail":"Send a token."}`, http.StatusUnauthorized)
			return
		}
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	return &Client{Base: server.URL, HTTP: server.Client(), Namespace: "team", Token: func(context.Context) (string, error) { return "right", nil }}
}

// TestAlong reads pages, comes back for what is new, and begins anew when the history was replaced.
func TestAlong(t *testing.T) {
	var asked []string
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/sessions/team:chat/trajectory" {
			t.Errorf("path %s", r.URL.Path)
		}
		after := r.URL.Query().Get("after")
		asked = append(asked, after)
		switch after {
		case "":
			_, _ = io.WriteString(w, `{"entries":[{"id":"a","sequence":1}],"untimed":[],"next":"n1","cursor":"x"}`)
		case "n1":
			_, _ = io.WriteString(w, `{"entries":[{"id":"b","sequence":2}],"untimed":[{"id":"u"}],"cursor":"c1"}`)
		case "c1":
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"title":"The cursor has expired","status":410}`)
		}
	})
	along := &Along{Client: client, Session: "chat"}
	var got []string
	each := func(e Entry) error {
		got = append(got, e.ID)
		return nil
	}
	for range 2 {
		if err := along.Next(t.Context(), each); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "u", "a", "b", "u"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"", "n1", "c1", "", "n1"}, asked); diff != "" {
		t.Error(diff)
	}
}

// TestExportBrokenOff tells a transfer that ended from one that was cut.
func TestExportBrokenOff(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("line\n", 4096))
		if r.URL.Query().Get("format") == "atif" {
			panic(http.ErrAbortHandler)
		}
	})
	var whole bytes.Buffer
	if err := client.Export(t.Context(), "chat", url.Values{}, &whole); err != nil || whole.Len() != 5*4096 {
		t.Errorf("%v, %d bytes", err, whole.Len())
	}
	if err := client.Export(t.Context(), "chat", url.Values{"format": {"atif"}}, io.Discard); err == nil {
		t.Error("an export that was cut off counts as whole")
	}
}

// TestProblems says what to do.
func TestProblems(t *testing.T) {
	answers := map[string]struct {
		status           int
		body, want       string
		missing, passing bool
	}{
		"forbidden": {http.StatusForbidden, `{"title":"Forbidden","status":403,"requiredAccess":{"verb":"get","group":"agentloop.dev","resource":"agentsessions","subresource":"trajectory","namespace":"team"}}`,
			"get on agentsessions/trajectory.agentloop.dev in namespace team", false, false},
		"missing":     {http.StatusNotFound, `{"title":"There is no such session","status":404}`, "There is no such session", true, false},
		"unavailable": {http.StatusServiceUnavailable, `{"title":"Not available","status":503,"detail":"The object store does not answer."}`, "The object store does not answer", false, true},
		"a proxy":     {http.StatusBadGateway, `<html>`, "check --viewer-url", false, false},
	}
	for name, tc := range answers {
		t.Run(name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			_, err := client.Trajectory(t.Context(), "chat", "")
			if err == nil || !strings.Contains(err.Error(), tc.want) || Missing(err) != tc.missing || Passing(err) != tc.passing {
				t.Errorf("%v (missing %v, passing %v)", err, Missing(err), Passing(err))
			}
		})
	}
}

// TestDoor lets the browser in that came first, and nobody else, and shows no token to anybody.
func TestDoor(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %v", r.URL.Path, r.Cookies())
	})
	door, err := Open(client, 0, "/projects/team/sessions/chat/trajectory")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- door.Serve(ctx) }()
	if strings.Contains(door.Address, "right") {
		t.Errorf("the address has the token: %s", door.Address)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(browser *http.Client, address, host string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := browser.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	first, other := &http.Client{Jar: jar}, &http.Client{}
	base := door.Address[:strings.Index(door.Address, ticketPath)]
	if code, _ := ask(other, base+"/", ""); code != http.StatusForbidden {
		t.Errorf("without a ticket: %d", code)
	}
	if code, body := ask(first, door.Address, ""); code != http.StatusOK || body != "/projects/team/sessions/chat/trajectory []" {
		t.Errorf("the first browser: %d %s", code, body)
	}
	if code, _ := ask(first, base+"/api/sessions", ""); code != http.StatusOK {
		t.Errorf("the first browser again: %d", code)
	}
	if code, _ := ask(other, door.Address, ""); code != http.StatusForbidden {
		t.Errorf("the ticket was good twice: %d", code)
	}
	if code, _ := ask(first, base+"/", "somebody.example.com"); code != http.StatusMisdirectedRequest {
		t.Errorf("another host name: %d", code)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestTokens finds the token that client-go would send, and refuses to show one person's trajectories as another's.
func TestTokens(t *testing.T) {
	own := &cluster.Cluster{Config: &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "mine"}}
	token, err := tokens(t.Context(), own, Options{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := token(t.Context()); err != nil || got != "mine" {
		t.Errorf("%q, %v", got, err)
	}
	as := &cluster.Cluster{Config: &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "mine", Impersonate: rest.ImpersonationConfig{UserName: "kim"}}}
	if _, err := tokens(t.Context(), as, Options{}, ""); err == nil || !strings.Contains(err.Error(), "--as cannot be carried") {
		t.Errorf("impersonation: %v", err)
	}
	basic := ownToken(&rest.Config{Host: "https://127.0.0.1:1", Username: "kim", Password: "x"})
	if got, err := basic(t.Context()); err != nil || got != "" {
		t.Errorf("a password became a token: %q, %v", got, err)
	}
	if _, err := tokens(t.Context(), own, Options{TokenFile: t.TempDir() + "/none"}, ""); err == nil {
		t.Error("a token file that there is not was accepted")
	}
	if _, err := accountKey("reader", ""); err == nil {
		t.Error("an account without a namespace was accepted")
	}
}

func TestAddress(t *testing.T) {
	for given, want := range map[string]string{
		"https://viewer.example.com/": "https://viewer.example.com", "http://127.0.0.1:8080/agentloop": "http://127.0.0.1:8080/agentloop",
		"viewer.example.com": "", "https://kim:x@viewer.example.com": "", "https://viewer.example.com/?token=x": "", "ftp://x": "",
	} {
		got, err := address(given)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", given, got, err)
		}
	}
}

// TestAway says that nobody answers.
func TestAway(t *testing.T) {
	client := &Client{Base: "http://127.0.0.1:1", HTTP: http.DefaultClient}
	var away *AwayError
	if err := client.Reach(t.Context()); !errors.As(err, &away) || !Passing(err) {
		t.Errorf("%v", err)
	}
}
