// Command pageserver serves the viewer's page over the recorded sessions of package fixture, for work on the page itself.
//
// Guarantees: it listens on a loopback address only, prints that address and the tokens that it knows, and keeps nothing.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/agentloop/agentloop/test/page/fixture"
)

func main() {
	port := flag.Int("port", 0, "port on 127.0.0.1; 0 for a free one")
	dist := flag.String("dist", "web/dist", "folder of the built page")
	flag.Parse()
	if err := serve(*port, *dist); err != nil {
		fmt.Fprintln(os.Stderr, "pageserver:", err)
		os.Exit(1)
	}
}

func serve(port int, dist string) error {
	f, err := fixture.New(os.DirFS(dist), slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\nreader %s\nadmin %s\n", listener.Addr(), fixture.Reader, fixture.Admin)
	server := &http.Server{Handler: f, ReadHeaderTimeout: 5 * time.Second}
	return server.Serve(listener)
}
