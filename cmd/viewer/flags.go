package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/agentloop/agentloop/cmd/internal/options"
)

const usage = `viewer serves the trajectories of sessions: an HTTP API and a web page. It only reads.

  viewer [flags]  serve until SIGTERM
  viewer --help   show the flags
`

// config is everything that the command line says.
type config struct {
	nats       options.NATS
	store      options.Store
	logging    options.Logging
	namespaces options.Namespaces

	listen            string
	certFile, keyFile string
	audiences         []string
	rememberYes       time.Duration
	rememberNo        time.Duration
	indexBytes        int64
	detailBytes       int64
	exports           int
	timeout           time.Duration
}

func parse(args []string) (config, error) {
	var c config
	var audiences string
	fs := flag.NewFlagSet("viewer", flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), usage, "\nFlags:\n")
		fs.PrintDefaults()
	}
	c.nats.Bind(fs)
	c.store.Bind(fs)
	c.logging.Bind(fs)
	c.namespaces.Bind(fs)
	fs.StringVar(&c.listen, "listen", ":8080", "address to serve on")
	fs.StringVar(&c.certFile, "tls-cert-file", "", "PEM certificate; with --tls-key-file the viewer speaks TLS itself")
	fs.StringVar(&c.keyFile, "tls-key-file", "", "PEM key of --tls-cert-file")
	fs.StringVar(&audiences, "token-audiences", "", "audiences of which a caller's token must have one, with commas between; empty for the API server's own")
	fs.DurationVar(&c.rememberYes, "remember-allowed", 15*time.Second, "how long a positive decision about a token or an access is remembered")
	fs.DurationVar(&c.rememberNo, "remember-denied", 5*time.Second, "how long a negative decision is remembered")
	fs.Int64Var(&c.indexBytes, "index-bytes", 256<<20, "bound of the session indexes that are kept in memory, in bytes")
	fs.Int64Var(&c.detailBytes, "detail-bytes", 64<<20, "largest model input that one answer shows, in bytes; exports have all of it")
	fs.IntVar(&c.exports, "max-exports", 8, "exports at one time")
	fs.DurationVar(&c.timeout, "timeout", 30*time.Second, "how long one answer may take to make")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unknown argument %q; see viewer --help", fs.Arg(0))
	}
	for _, audience := range strings.Split(audiences, ",") {
		if audience = strings.TrimSpace(audience); audience != "" {
			c.audiences = append(c.audiences, audience)
		}
	}
	return c, c.check()
}

func (c config) check() error {
	switch {
	case (c.certFile == "") != (c.keyFile == ""):
		return errors.New("--tls-cert-file and --tls-key-file belong together")
	case c.rememberYes <= 0 || c.rememberNo <= 0:
		return errors.New("--remember-allowed and --remember-denied must be positive")
	case c.indexBytes < 1 || c.detailBytes < 1:
		return errors.New("--index-bytes and --detail-bytes must be positive")
	case c.exports < 1:
		return fmt.Errorf("--max-exports=%d: use 1 or more", c.exports)
	case c.timeout <= 0:
		return fmt.Errorf("--timeout=%s: use a positive time", c.timeout)
	}
	return nil
}
