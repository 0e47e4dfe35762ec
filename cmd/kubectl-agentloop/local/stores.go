package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/agentloop/agentloop/cmd/internal/options"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/fsstore"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
)

// The folders of the stores in the kept one.
const (
	eventsFolder  = "nats"
	objectsFolder = "objects"
)

// stores are an event log and an object store in one folder.
type stores struct {
	log    *natslog.Log
	store  cas.Store
	nats   *server.Server
	conn   *nats.Conn
	closed func() error
}

// startTimeout is how long the event log's server may take to start: it reads what the folder has.
const startTimeout = time.Minute

// openStores opens the stores of a folder; of a temporary one when dir is empty. With listen, the event log is served on that
// address of loopback as well.
func openStores(ctx context.Context, dir, listen string, logger *slog.Logger) (*stores, error) {
	remove := func() error { return nil }
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "agentloop-local-"); err != nil {
			return nil, err
		}
		remove = func() error { return os.RemoveAll(dir) }
	}
	opts := &server.Options{
		ServerName: "agentloop-local", JetStream: true, StoreDir: filepath.Join(dir, eventsFolder), DontListen: listen == "", Host: listen, Port: server.RANDOM_PORT,
		NoLog: true, NoSigs: true, SyncAlways: true,
	}
	s := &stores{}
	s.closed = func() error {
		if s.conn != nil {
			s.conn.Close()
		}
		if s.nats != nil {
			s.nats.Shutdown()
			s.nats.WaitForShutdown()
		}
		return remove()
	}
	if err := s.open(ctx, opts, filepath.Join(dir, objectsFolder), logger); err != nil {
		return nil, errors.Join(err, s.closed())
	}
	return s, nil
}

func (s *stores) open(ctx context.Context, opts *server.Options, folder string, logger *slog.Logger) error {
	driver, err := fsstore.Open(folder)
	if err != nil {
		return err
	}
	if s.store, err = options.Remembering(driver); err != nil {
		return err
	}
	if s.nats, err = server.NewServer(opts); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	s.nats.Start()
	if !s.nats.ReadyForConnections(startTimeout) {
		return fmt.Errorf("event log: not ready after %s: is the folder used by another process?", startTimeout)
	}
	if s.conn, err = nats.Connect("", nats.InProcessServer(s.nats), nats.Name("kubectl-agentloop")); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	if s.log, err = natslog.New(s.conn, natslog.Options{Logger: logger}); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	if err := s.log.Ensure(ctx); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	return nil
}
