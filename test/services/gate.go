package services

import (
	"errors"
	"io"
	"net"
	"sync"
)

// Gate is a way to a server over TCP that can be shut: clients behind it lose the server, everybody else keeps it.
// Its methods are safe for concurrent use.
type Gate struct {
	target, address string

	mu       sync.Mutex
	listener net.Listener // nil while the gate is shut
	conns    map[net.Conn]bool
	wg       sync.WaitGroup
}

// OpenGate opens a gate on a free loopback port to target, which is host:port.
func OpenGate(target string) (*Gate, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	g := &Gate{target: target, address: address, conns: map[net.Conn]bool{}}
	return g, g.Open()
}

// Address is where clients connect, as host:port, the same whether the gate is open or shut.
func (g *Gate) Address() string { return g.address }

// Open lets clients connect again. An open gate is left alone.
func (g *Gate) Open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", g.address)
	if err != nil {
		return err
	}
	g.listener = listener
	g.wg.Go(func() { g.accept(listener) })
	return nil
}

// Shut breaks all connections and refuses new ones until Open. It returns when nothing passes any more.
func (g *Gate) Shut() error {
	g.mu.Lock()
	var err error
	if g.listener != nil {
		err = g.listener.Close()
		g.listener = nil
	}
	for conn := range g.conns {
		_ = conn.Close() // the other end learns of it either way
	}
	g.mu.Unlock()
	g.wg.Wait()
	return err
}

func (g *Gate) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		g.wg.Go(func() { g.pass(listener, client) })
	}
}

// pass carries one connection until either end is gone.
func (g *Gate) pass(listener net.Listener, client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	defer server.Close()
	g.mu.Lock()
	if g.listener != listener {
		g.mu.Unlock()
		return
	}
	g.conns[client], g.conns[server] = true, true
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.conns, client)
		delete(g.conns, server)
	}()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server) // ends with either connection
		_ = client.Close()
	})
	_, _ = io.Copy(server, client)
	_ = server.Close()
	back.Wait()
}
