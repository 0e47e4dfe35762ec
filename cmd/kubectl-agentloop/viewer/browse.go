package viewer

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
)

// Door lets one browser of this machine see the viewer without a token of its own: it puts the token into each request on the
// way. It opens by an address that is good once; whoever comes later needs the cookie that the first one got. Neither address
// nor cookie says anything about the token.
type Door struct {
	// Address is the one that is good once.
	Address string

	server   *http.Server
	listener net.Listener
	secret   string
	cookie   string
	ticket   string
	used     atomic.Bool
}

// ticketPath is where the address that is good once leads.
const ticketPath = "/.open/"

// Open makes a door to a page of the viewer on a port of loopback; 0 chooses one. Serve serves it.
func Open(c *Client, port int, page string) (*Door, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("--port %d: %w", port, err)
	}
	target, err := url.Parse(c.Base)
	if err != nil {
		return nil, err
	}
	host := listener.Addr().String()
	_, number, _ := strings.Cut(host, ":")
	d := &Door{listener: listener, secret: random(), ticket: random(), cookie: "agentloop-view-" + number}
	d.Address = "http://" + host + ticketPath + d.ticket
	proxy := &httputil.ReverseProxy{
		Transport: c.HTTP.Transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Cookie")
			r.Out.Header.Del("Authorization")
			if token, err := c.Token(r.In.Context()); err == nil { // without one the viewer answers that one is needed
				r.Out.Header.Set("Authorization", "Bearer "+token)
			}
		},
	}
	d.server = &http.Server{ReadHeaderTimeout: answerTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host != host: // another name for this address: somebody's page that had it looked up
			http.Error(w, "unknown host", http.StatusMisdirectedRequest)
		case r.URL.Path == ticketPath+d.ticket && d.used.CompareAndSwap(false, true):
			//nolint:gosec // not Secure: loopback without TLS, which some browsers do not take for a secure place
			http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: d.secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Referrer-Policy", "no-referrer")
			w.Header().Set("Location", page)
			w.WriteHeader(http.StatusSeeOther)
		case !d.knows(r):
			http.Error(w, "This address was used already, or by another browser. Start kubectl agentloop view again.", http.StatusForbidden)
		default:
			proxy.ServeHTTP(w, r)
		}
	})}
	return d, nil
}

func (d *Door) knows(r *http.Request) bool {
	cookie, err := r.Cookie(d.cookie)
	return err == nil && subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(d.secret)) == 1
}

// Serve serves until ctx ends.
func (d *Door) Serve(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- d.server.Serve(d.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", d.listener.Addr(), err)
	case <-ctx.Done():
		return d.server.Close()
	}
}

func random() string {
	raw := make([]byte, 24)
	_, _ = rand.Read(raw) // it never fails
	return hex.EncodeToString(raw)
}
