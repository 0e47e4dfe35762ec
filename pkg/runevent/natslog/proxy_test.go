package natslog_test

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"
)

// lossy is a TCP proxy that, when told to, drops the next piece of data with a marker in it and breaks the connection, or puts
// something else in the marker's place.
type lossy struct {
	url    string
	target string

	mu      sync.Mutex
	marker  []byte
	instead []byte // of the marker's length; nil to break the connection
	drops   int
	conns   []net.Conn
	wg      sync.WaitGroup
}

func newLossy(t *testing.T, url string) *lossy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &lossy{url: "nats://" + listener.Addr().String(), target: strings.TrimPrefix(url, "nats://")}
	p.wg.Go(func() { p.accept(listener) })
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// loseNext arms the proxy for one piece of data.
func (p *lossy) loseNext(marker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marker, p.instead = []byte(marker), nil
}

// replaceNext arms the proxy to change one piece of data.
func (p *lossy) replaceNext(marker, instead string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marker, p.instead = []byte(marker), []byte(instead)
}

func (p *lossy) lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drops
}

func (p *lossy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.wg.Go(func() { p.pipe(server, client) })
		p.wg.Go(func() { p.pipe(client, server) })
	}
}

// pipe copies from src to dst until either ends or the marker comes by. A marker that is cut in two by the network is
// found too: the end of the last piece is looked at again with the next.
func (p *lossy) pipe(dst, src net.Conn) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, 64<<10)
	var tail []byte
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if p.take(append(tail, buf[:n]...), buf[:n]) {
				return
			}
			tail = bytes.Clone(buf[max(0, n-32):n])
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// take says whether data is to be dropped. What it changes is in piece, the newest part of data.
func (p *lossy) take(data, piece []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.marker == nil || !bytes.Contains(data, p.marker) {
		return false
	}
	if p.instead != nil {
		at := bytes.Index(piece, p.marker)
		if at < 0 {
			return false
		}
		copy(piece[at:], p.instead)
	}
	p.marker = nil
	p.drops++
	return p.instead == nil
}
