package natsqueue_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agentloop/agentloop/test/services"
)

// After a power failure a server may remember the acknowledgement of an item, and have the item. Its consumer would never deliver
// it; the queue hands out what is there.
func TestConsumerAheadOfItsStream(t *testing.T) {
	dir := t.TempDir()
	server, err := services.StartNATS(t.Context(), services.NATSOptions{Programs: services.Folder(t), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	q := newQueue(t, server.URL, 30*time.Second)
	put(t, q, item(1), true)
	saved := filepath.Join(t.TempDir(), "saved")
	if err := errors.Join(server.Stop(), os.CopyFS(saved, os.DirFS(server.Store())), server.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	reconnected(t, q)
	for n := 2; n < 10; n++ {
		put(t, q, item(n), true)
	}
	for range 9 {
		if err := fetch(t, q).Ack(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(server.Stop(), messagesOf(saved, server.Store()), server.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	late := newQueue(t, server.URL, 30*time.Second)
	put(t, late, item(20), true)
	left := map[string]bool{item(1).RunUID: true, item(20).RunUID: true}
	for len(left) > 0 {
		d := fetch(t, late)
		if !left[d.Item().RunUID] {
			t.Fatalf("fetched %s", d.Item().RunUID)
		}
		delete(left, d.Item().RunUID)
		if err := d.Ack(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// messagesOf puts the messages of the work queue back to what they were, and leaves what its consumer knows.
func messagesOf(saved, store string) error {
	found := 0
	err := filepath.WalkDir(saved, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || entry.Name() != "msgs" || filepath.Base(filepath.Dir(path)) != "AGENTLOOP_WORK" {
			return err
		}
		found++
		inside, err := filepath.Rel(saved, path)
		if err != nil {
			return err
		}
		target := filepath.Join(store, inside)
		return errors.Join(os.RemoveAll(target), os.CopyFS(target, os.DirFS(path)), fs.SkipDir)
	})
	if errors.Is(err, fs.SkipDir) {
		err = nil
	}
	if err == nil && found != 1 {
		err = errors.New("the work queue's messages were not found")
	}
	return err
}
