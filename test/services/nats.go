package services

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATSOptions say how a NATS server is started.
type NATSOptions struct {
	// Programs is the folder with the nats-server binary (hack/services/setup.sh prints it).
	Programs string
	// Dir keeps the configuration, the JetStream store and the log. The caller owns it.
	Dir string
	// SyncInterval is when JetStream writes through to the disk: "always" (also for "") or a duration such as "2m".
	SyncInterval string
	// MaxPayload is the largest message in bytes; 0 is 1 MiB.
	MaxPayload int
	// MaxStore bounds the file store in bytes: beyond it the server refuses to store. 0 is 16 GiB.
	MaxStore int64

	// member is what the server is in a cluster; nil for a server alone.
	member *member
}

// NATS is a running NATS server with a JetStream file store.
type NATS struct {
	*Process
	// URL is what clients connect to: nats://127.0.0.1:port, the same over restarts.
	URL string

	address, dir string
	opts         NATSOptions
}

// StartNATS starts a server on a free loopback port and waits until JetStream answers.
func StartNATS(ctx context.Context, opts NATSOptions) (*NATS, error) {
	var n *NATS
	_, err := startOnFreePort(ctx, func(address string) (_ *Process, err error) {
		if n, err = newNATS(opts, address); err != nil {
			return nil, err
		}
		return n.Process, nil
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// newNATS is a server at an address that is not started yet.
func newNATS(opts NATSOptions, address string) (*NATS, error) {
	binary, err := program(opts.Programs, "nats-server")
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	name := "nats-server"
	if opts.member != nil {
		name = opts.member.name
	}
	n := &NATS{dir: dir, opts: opts, URL: "nats://" + address, address: address}
	n.Process = &Process{
		name:    name,
		logPath: filepath.Join(dir, "nats-server.log"),
		command: func() *exec.Cmd { return exec.Command(binary, "-c", n.configPath()) },
		ready:   func(ctx context.Context) error { return natsReady(ctx, n.URL) },
	}
	return n, n.configure()
}

// Address is what clients connect to, as host:port.
func (n *NATS) Address() string { return n.address }

func (n *NATS) configPath() string { return filepath.Join(n.dir, "nats.conf") }

func (n *NATS) configure() error {
	return os.WriteFile(n.configPath(), natsConfig(n.address, n.dir, n.opts), 0o644)
}

// Limit bounds the file store to so many bytes from the next start on; 0 takes the bound back.
func (n *NATS) Limit(maxStore int64) error {
	n.opts.MaxStore = maxStore
	return n.configure()
}

// Store is the folder with all that JetStream keeps. It may be copied, removed and put back while the server does not run.
func (n *NATS) Store() string { return filepath.Join(n.dir, "jetstream") }

func natsConfig(address, dir string, opts NATSOptions) []byte {
	sync := opts.SyncInterval
	if sync == "" {
		sync = "always"
	}
	maxPayload := opts.MaxPayload
	if maxPayload == 0 {
		maxPayload = 1 << 20
	}
	maxStore := opts.MaxStore
	if maxStore == 0 {
		maxStore = 16 << 30
	}
	name, cluster := "loopback", ""
	if opts.member != nil {
		name, cluster = opts.member.name, opts.member.config()
	}
	return fmt.Appendf(nil, `listen: %q
server_name: %q
max_payload: %d
jetstream {
  store_dir: %s
  sync_interval: %q
  max_memory_store: 256MB
  max_file_store: %d
}
%s`, address, name, maxPayload, strconv.Quote(filepath.Join(dir, "jetstream")), sync, maxStore, cluster)
}

// natsReady asks for the account's JetStream facts, which a server answers only after it has restored its streams.
func natsReady(ctx context.Context, url string) error {
	conn, err := nats.Connect(url, nats.Timeout(readyAnswer), nats.NoReconnect())
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyAnswer)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	return err
}
