package faultproxy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Fault spoils one exchange.
type Fault func(*Exchange)

// Method matches requests of one HTTP method.
func Method(method string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method }
}

// Listing matches S3 listings of objects.
func Listing(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Query().Get("list-type") == "2"
}

// PathHas matches requests of one method whose path contains a text.
func PathHas(method, text string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method && strings.Contains(r.URL.Path, text) }
}

// S3Error returns the answer with which S3 servers refuse.
func S3Error(status int, code string) Answer {
	body := fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+
		`<Error><Code>%s</Code><Message>a scripted fault</Message><RequestId>fault</RequestId></Error>`, code)
	return Answer{Status: status, Header: http.Header{"Content-Type": {"application/xml"}}, Body: body}
}

// Refuse answers with an S3 error; the server never sees the request.
func Refuse(status int, code string) Fault { return Fixed(S3Error(status, code)) }

// Fixed answers in a fixed way; the server never sees the request.
func Fixed(a Answer) Fault {
	return func(e *Exchange) { e.Reply(a) }
}

// Lie lets the server do its work and answers with an S3 error.
func Lie(status int, code string) Fault {
	return func(e *Exchange) {
		e.Forward()
		e.Reply(S3Error(status, code))
	}
}

// ResetBefore breaks the connection without the server seeing the request.
func ResetBefore() Fault { return func(e *Exchange) { e.Reset() } }

// ResetAfter lets the server do its work and breaks the connection instead of answering: the client cannot know.
func ResetAfter() Fault {
	return func(e *Exchange) {
		e.Forward()
		e.Reset()
	}
}

// CutUpload sends the server all but the last n bytes of the request's body and breaks both connections.
func CutUpload(n int) Fault {
	return func(e *Exchange) {
		var wire bytes.Buffer
		if err := e.outgoing().Write(&wire); err != nil {
			e.Reset()
		}
		if conn, err := net.Dial("tcp", e.proxy.target.Host); err == nil {
			_, _ = conn.Write(wire.Bytes()[:max(0, wire.Len()-n)])
			_ = conn.Close()
		}
		e.Reset()
	}
}

// CutAnswer announces the whole answer and breaks the connection after its first n bytes.
func CutAnswer(n int) Fault {
	return func(e *Exchange) { e.ReplyCut(e.Forward(), n) }
}

// ShortenAnswer delivers the first n bytes of the answer as if they were all.
func ShortenAnswer(n int) Fault {
	return func(e *Exchange) {
		a := e.Forward()
		a.Body = a.Body[:min(n, len(a.Body))]
		e.Reply(a)
	}
}

// FlipAnswer flips a bit of the byte that stands n before the end of the answer.
func FlipAnswer(n int) Fault {
	return func(e *Exchange) {
		a := e.Forward()
		flip(a.Body, n)
		e.Reply(a)
	}
}

// FlipRequest flips a bit of the byte that stands n before the end of the request's body.
func FlipRequest(n int) Fault {
	return func(e *Exchange) {
		flip(e.Body, n)
		e.Pass()
	}
}

func flip(b []byte, n int) {
	if n >= 1 && n <= len(b) {
		b[len(b)-n] ^= 1
	}
}

// RewriteHost forwards with another Host header, as a load balancer does that does not keep it.
func RewriteHost(host string) Fault {
	return func(e *Exchange) {
		e.Request.Host = host
		e.Pass()
	}
}

// RewritePath forwards with a text of the path replaced, as a proxy does that serves below a prefix.
func RewritePath(from, to string) Fault {
	return func(e *Exchange) {
		e.Request.URL.Path = strings.Replace(e.Request.URL.Path, from, to, 1)
		e.Request.URL.RawPath = ""
		e.Pass()
	}
}

// amzDate is the time format of S3's own date header.
const amzDate = "20060102T150405Z"

// SkewClock makes client and server disagree by d: the server sees the client's date moved by d, and the client sees
// the server's date moved back by d. The signature does not fit any more, which a server that checks the date first
// never finds out.
func SkewClock(d time.Duration) Fault {
	return func(e *Exchange) {
		if at, err := time.Parse(amzDate, e.Request.Header.Get("X-Amz-Date")); err == nil {
			e.Request.Header.Set("X-Amz-Date", at.Add(d).Format(amzDate))
		}
		a := e.Forward()
		if at, err := http.ParseTime(a.Header.Get("Date")); err == nil {
			a.Header.Set("Date", at.Add(-d).UTC().Format(http.TimeFormat))
		}
		e.Reply(a)
	}
}

// Hold waits until release is closed or the client is gone, and then passes the request on.
func Hold(release <-chan struct{}) Fault {
	return func(e *Exchange) {
		select {
		case <-release:
			e.Pass()
		case <-e.Request.Context().Done():
			e.Reset()
		}
	}
}

// Late passes requests on after a while.
func Late(after time.Duration) Fault {
	return func(e *Exchange) {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
			e.Pass()
		case <-e.Request.Context().Done():
			e.Reset()
		}
	}
}

// Sometimes spoils about percent of the requests with one of the faults, drawn from the seed in the order of requests,
// and passes the others.
func Sometimes(seed uint64, percent int, faults ...Fault) Fault {
	var mu sync.Mutex
	draw := rand.New(rand.NewPCG(seed, 0))
	return func(e *Exchange) {
		mu.Lock()
		spoil, which := draw.IntN(100) < percent, draw.IntN(len(faults))
		mu.Unlock()
		if !spoil {
			e.Pass()
			return
		}
		faults[which](e)
	}
}
