package scenarios

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// fillerFile takes the room of a small disk.
const fillerFile = "filler"

// disk is "nats disk": the folder of NATS becomes a file system in memory of that size, or what it was before; full leaves no
// room in it, free makes some again.
func disk(ts *testscript.TestScript, what string) {
	store := shared.NATS.Store()
	filler := filepath.Join(store, fillerFile)
	switch what {
	case "full":
		ts.Check(takeAll(filler))
	case "free":
		ts.Check(os.Remove(filler))
	case "off":
		ts.Check(shared.NATS.Stop())
		moved(ts, store, func() { ts.Check(syscall.Unmount(store, 0)) })
		control(ts, shared.NATS, "start")
	default:
		ts.Check(shared.NATS.Stop())
		moved(ts, store, func() {
			if err := syscall.Mount("tmpfs", store, "tmpfs", 0, "size="+what); err != nil {
				ts.Fatalf("mount a small disk (root may): %v", err)
			}
			ts.Defer(func() { _ = syscall.Unmount(store, syscall.MNT_DETACH) }) // fails when it is off again
		})
		control(ts, shared.NATS, "start")
	}
}

// moved has the folder's content where it was, while something else is put under its name.
func moved(ts *testscript.TestScript, store string, change func()) {
	aside := store + ".moved"
	if out, err := exec.Command("cp", "-a", store, aside).CombinedOutput(); err != nil {
		ts.Fatalf("copy %s: %v: %s", store, err, out)
	}
	change()
	entries, err := os.ReadDir(store)
	ts.Check(err)
	for _, entry := range entries {
		ts.Check(os.RemoveAll(filepath.Join(store, entry.Name())))
	}
	if out, err := exec.Command("cp", "-a", aside+"/.", store).CombinedOutput(); err != nil {
		ts.Fatalf("copy back: %v: %s", err, out)
	}
	ts.Check(os.RemoveAll(aside))
}

// takeAll writes a file until nothing more fits, however small.
func takeAll(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	for _, size := range []int{1 << 20, 1 << 12, 1} {
		for err == nil {
			_, err = file.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return errors.Join(err, file.Close())
		}
		err = nil
	}
	return file.Close()
}
