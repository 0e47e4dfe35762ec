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
}

// NATS is a running NATS server with a JetStream file store.
type NATS struct {
	*Process
	// URL is what clients connect to: nats://127.0.0.1:port, the same over restarts.
	URL string
}

// StartNATS starts a server on a free loopback port and waits until JetStream answers.
func StartNATS(ctx context.Context, opts NATSOptions) (*NATS, error) {
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
	n := &NATS{}
	n.Process, err = startOnFreePort(ctx, func(address string) (*Process, error) {
		n.URL = "nats://" + address
		config := filepath.Join(dir, "nats.conf")
		if err := os.WriteFile(config, natsConfig(address, dir, opts), 0o644); err != nil {
			return nil, err
		}
		return &Process{
			name:    "nats-server",
			logPath: filepath.Join(dir, "nats-server.log"),
			command: func() *exec.Cmd { return exec.Command(binary, "-c", config) },
			ready:   func(ctx context.Context) error { return natsReady(ctx, "nats://"+address) },
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

func natsConfig(address, dir string, opts NATSOptions) []byte {
	sync := opts.SyncInterval
	if sync == "" {
		sync = "always"
	}
	maxPayload := opts.MaxPayload
	if maxPayload == 0 {
		maxPayload = 1 << 20
	}
	return fmt.Appendf(nil, `listen: %q
server_name: "loopback"
max_payload: %d
jetstream {
  store_dir: %s
  sync_interval: %q
  max_memory_store: 256MB
  max_file_store: 16GB
}
`, address, maxPayload, strconv.Quote(filepath.Join(dir, "jetstream")), sync)
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
