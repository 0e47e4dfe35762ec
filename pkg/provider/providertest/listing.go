package providertest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

// describer returns the adapter for a server's address as the port that describes models.
func (a Adapter) describer(t *testing.T, cfg wire.Config) provider.Describer {
	t.Helper()
	d, ok := a.Client(t, cfg).(provider.Describer)
	if !ok {
		t.Fatal("the adapter does not describe models")
	}
	return d
}

// entry is a model of a listing, with its limits as the protocol tells them.
func (a Adapter) entry(id, window, output string) string {
	names := [2]string{"max_input_tokens", "max_tokens"}
	if a.API.OpenAICompatible() {
		names = [2]string{"max_model_len", "max_completion_tokens"}
	}
	return `{"id":"` + id + `","` + names[0] + `":` + window + `,"` + names[1] + `":` + output + `}`
}

func list(entries ...string) string {
	return `{"data":[` + strings.Join(entries, ",") + `],"has_more":false}`
}

// catalogue answers for the whole listing with one reply, and for a model by its escaped name with another.
func catalogue(whole Reply, byName map[string]Reply) Reply {
	return func(w http.ResponseWriter, r *http.Request) {
		_, name, found := strings.Cut(r.URL.EscapedPath(), "models/")
		switch {
		case !found:
			whole(w, r)
		case byName[name] == nil:
			Answer(404, `{"error":{"type":"not_found_error","message":"no such model"}}`)(w, r)
		default:
			byName[name](w, r)
		}
	}
}

func listing(t *testing.T, a Adapter) {
	t.Run("what is listed, told and known by name", func(t *testing.T) { described(t, a) })
	listingFailures(t, a)
	listingEndings(t, a)
}

func described(t *testing.T, a Adapter) {
	server := NewServer(t, catalogue(
		Answer(200, list(a.entry("model-1", "1000", "500"), a.entry("model-2", "null", "-3"), `{"id":"model-3"}`, `{"id":7}`, `"odd"`)),
		map[string]Reply{
			"alias":        Answer(200, a.entry("model-1", "2000", "1.5")),
			"org%2Fname:x": Answer(200, " \n"+a.entry("org/name:x", "9007199254740992", `"9"`), "Content-Type", "text/plain"),
			"whole":        Answer(200, list()), // some servers answer any path with the list
			"page":         Answer(200, "<html>"),
			"refused":      Answer(400, `{"error":{"message":"bad name"}}`),
		}))
	ids := []string{"model-2", "model-1", "alias", "org/name:x", "gone", "model-3", "whole", "page", "refused"}
	got, err := a.describer(t, wire.Config{BaseURL: server.URL}).Describe(context.Background(), ids)
	if err != nil {
		t.Fatal(err)
	}
	n := func(v int64) *int64 { return &v }
	want := []provider.ModelInfo{
		{ID: "model-2", Listed: true}, {ID: "model-1", Listed: true, ContextWindow: n(1000), MaxTokens: n(500)},
		{ID: "alias", Listed: true, ContextWindow: n(2000)}, {ID: "org/name:x", Listed: true}, {ID: "gone"}, {ID: "model-3", Listed: true},
		{ID: "whole"}, {ID: "page"}, {ID: "refused"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	requests := server.Requests()
	if len(requests) != 7 { // the listing, and what is not in it
		t.Errorf("%d requests", len(requests))
	}
	for _, r := range requests {
		if len(r.Body) > 0 || r.Header.Get("Transfer-Encoding") != "" || !strings.Contains(r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"), Secret) {
			t.Errorf("request %s with header %v and body %q", r.Path, r.Header, r.Body)
		}
	}
}

func listingFailures(t *testing.T, a Adapter) {
	fine := Answer(200, list())
	cases := map[string]struct {
		reply    Reply
		class    provider.Class
		code     string
		status   int
		unlisted bool
	}{
		"a page":                      {Answer(200, "<html>Sign in</html>", "Content-Type", "text/html"), provider.ClassTransient, "html_response", 200, true},
		"a text":                      {Answer(200, "ok"), provider.ClassTransient, "no_json", 200, true},
		"nothing":                     {Answer(200, ""), provider.ClassTransient, "no_json", 200, true},
		"JSON without a list":         {Answer(200, `{"data":{"id":"model-1"}}`), provider.ClassInvalidRequest, "no_listing", 200, true},
		"broken JSON":                 {Answer(200, `{"data":[`), provider.ClassInvalidRequest, "no_listing", 200, true},
		"no such path":                {Answer(404, `{"detail":"Not Found"}`), provider.ClassInvalidRequest, "", 404, true},
		"no such method":              {Answer(405, ""), provider.ClassInvalidRequest, "", 405, true},
		"a refused key":               {Answer(401, `{"error":{"type":"authentication_error"}}`), provider.ClassAuth, "", 401, false},
		"a key without the right":     {Answer(403, ""), provider.ClassAuth, "", 403, false},
		"too many requests":           {Answer(429, "", "Retry-After", "3"), provider.ClassRateLimited, "", 429, false},
		"a fault":                     {Answer(500, "<html>"), provider.ClassTransient, "", 500, false},
		"a redirect":                  {Answer(307, "", "Location", "http://127.0.0.1:1/elsewhere"), provider.ClassInvalidRequest, "redirect", 307, false},
		"a fault for a name":          {catalogue(fine, map[string]Reply{"model-1": Answer(503, "")}), provider.ClassOverloaded, "", 503, false},
		"a key refused for a name":    {catalogue(fine, map[string]Reply{"model-1": Answer(401, "")}), provider.ClassAuth, "", 401, false},
		"a connection that breaks":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, provider.ClassTransient, "no_response", 0, false},
		"a listing that is too large": {endless, provider.ClassTransient, "response_too_large", 200, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, f := a.undescribed(context.Background(), t, wire.Config{}, c.reply)
			if f.Class != c.class || f.HTTPStatus != c.status || c.code != "" && f.Code != c.code || errors.Is(f, provider.ErrNoListing) != c.unlisted || f.Partial != nil {
				t.Errorf("failure %+v: %v", f, f.Err)
			}
			if c.class == provider.ClassRateLimited && f.RetryAfter != 3*time.Second {
				t.Errorf("retry after %s", f.RetryAfter)
			}
		})
	}
}

// endless answers with a listing that does not end.
func endless(w http.ResponseWriter, _ *http.Request) {
	if _, err := io.WriteString(w, `{"data":[`); err != nil {
		return
	}
	for chunk := strings.Repeat(`"xxxxxxxxxxxxx",`, 1<<14); ; {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}

func listingEndings(t *testing.T, a Adapter) {
	t.Run("no answer at all", func(t *testing.T) {
		if _, f := a.undescribed(context.Background(), t, wire.Config{IdleTimeout: 50 * time.Millisecond}, Silence); f.Class != provider.ClassTransient || f.Code != "idle_timeout" {
			t.Errorf("failure %+v", f)
		}
	})
	t.Run("the caller's deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if _, f := a.undescribed(ctx, t, wire.Config{}, Silence); f.Class != provider.ClassCancelled || !errors.Is(f, context.DeadlineExceeded) {
			t.Errorf("failure %+v", f)
		}
	})
	t.Run("cancelled before the start", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if server, f := a.undescribed(ctx, t, wire.Config{}, Silence); f.Class != provider.ClassCancelled || f.Dispatched || len(server.Requests()) != 0 {
			t.Errorf("failure %+v", f)
		}
	})
}

// undescribed asks for one model and returns the failure that it must come to, which shows no key.
func (a Adapter) undescribed(ctx context.Context, t *testing.T, cfg wire.Config, reply Reply) (*Server, *provider.Error) {
	t.Helper()
	server := NewServer(t, reply)
	cfg.BaseURL = server.URL
	models, err := a.describer(t, cfg).Describe(ctx, []string{"model-1"})
	f := &provider.Error{}
	if !errors.As(err, &f) {
		t.Fatalf("models %+v, error %v", models, err)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(e.Error(), Secret) {
			t.Errorf("the key is in the error %q", e)
		}
	}
	return server, f
}
