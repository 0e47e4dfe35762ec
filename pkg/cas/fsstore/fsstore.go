// Package fsstore keeps objects as files in one folder: the embedded store of local and single-node installations.
//
// Guarantees: keys and envelope are those of the S3 store, so the folder's v1 tree can be copied into a bucket; an
// object appears under its name whole or not at all, and a put returns when file and folder entries are on disk; several
// processes may use one folder; a file that cannot be verified is reported as cas.ErrCorrupt and left where it is until
// the same object is put again.
package fsstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/codec"
)

const (
	// tempDir is where files are written before they get their name; it lies beside the v1 tree.
	tempDir = "tmp"
	// staleTemp is the age at which a temporary file belongs to no living process.
	staleTemp = time.Hour
	// refreshAfter is the age at which a put makes an existing file young again: a sweep of unreferenced objects must
	// see that somebody is about to refer to it.
	refreshAfter = time.Hour
	// The contents are conversations: nobody but the owner and its group reads them.
	dirMode  = 0o750
	fileMode = 0o640
)

// Store implements cas.Store in a folder.
type Store struct {
	root string
	dirs dirSet
}

var _ cas.Store = (*Store)(nil)

// Open prepares the folder dir, creating it if needed, and removes temporary files that crashed writers left behind.
func Open(dir string) (*Store, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	temp := filepath.Join(root, tempDir)
	if err := os.MkdirAll(temp, dirMode); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := removeStale(temp, time.Now().Add(-staleTemp)); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return &Store{root: root}, nil
}

func removeStale(temp string, before time.Time) error {
	entries, err := os.ReadDir(temp)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() && info.ModTime().Before(before) {
			if err := os.Remove(filepath.Join(temp, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Put implements cas.Store.
func (s *Store) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	if err := ctx.Err(); err != nil {
		return cas.Ref{}, err
	}
	if len(data) > cas.MaxObject {
		return cas.Ref{}, fmt.Errorf("%w: %d bytes, an object has at most %d", cas.ErrTooLarge, len(data), cas.MaxObject)
	}
	ref := cas.Ref{Digest: cas.Of(data), Size: int64(len(data)), MediaType: mediaType}
	path, err := s.path(scope, ref.Digest)
	if err != nil {
		return cas.Ref{}, err
	}
	if err := s.put(ctx, path, ref, data); err != nil {
		return cas.Ref{}, fmt.Errorf("put %s: %w", ref.Digest, err)
	}
	return ref, nil
}

func (s *Store) put(ctx context.Context, path string, ref cas.Ref, data []byte) error {
	if intact(path, ref) {
		return s.confirm(path)
	}
	encoded, err := codec.Encode(data)
	if err != nil {
		return err
	}
	return s.write(ctx, path, ref.Digest.Hex(), encoded)
}

// write puts bytes under a path, whole or not at all. stem begins the temporary name.
func (s *Store) write(ctx context.Context, path, stem string, encoded []byte) error {
	temp, err := s.writeTemp(stem, encoded)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp) }() // gone already once it has its name
	if err := ctx.Err(); err != nil {
		return err
	}
	err = s.publish(temp, path)
	if errors.Is(err, fs.ErrNotExist) {
		// A purge took the folder away that this process still believed in.
		s.dirs.clear()
		err = s.publish(temp, path)
	}
	return err
}

func intact(path string, ref cas.Ref) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // only read
	_, err = codec.ReadVerified(file, ref)
	return err == nil
}

// confirm makes durable what another writer has given its name, perhaps without having synced the folder yet, and makes
// an old file young again.
func (s *Store) confirm(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if now := time.Now(); now.Sub(info.ModTime()) > refreshAfter {
		if err := os.Chtimes(path, time.Time{}, now); err != nil {
			return err
		}
	}
	if err := s.ensureDir(filepath.Dir(path)); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// writeTemp writes a file to disk under a temporary name.
func (s *Store) writeTemp(stem string, encoded []byte) (name string, err error) {
	file, err := os.CreateTemp(filepath.Join(s.root, tempDir), stem+"-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if _, err := file.Write(encoded); err != nil {
		return "", errors.Join(err, file.Close())
	}
	if err := file.Chmod(fileMode); err != nil {
		return "", errors.Join(err, file.Close())
	}
	if err := file.Sync(); err != nil {
		return "", errors.Join(err, file.Close())
	}
	return file.Name(), file.Close()
}

// publish gives a synced file its name and syncs the folder that holds the name.
func (s *Store) publish(temp, path string) error {
	dir := filepath.Dir(path)
	if err := s.ensureDir(dir); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(dir)
}

// ensureDir creates a folder below the root and makes its entry durable, as well as those of the folders above it.
func (s *Store) ensureDir(dir string) error {
	if dir == s.root || s.dirs.has(dir) {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := s.ensureDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := syncDir(parent); err != nil {
		return err
	}
	s.dirs.add(dir)
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Get implements cas.Store.
func (s *Store) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, err := s.path(scope, ref.Digest)
	if err != nil {
		return nil, err
	}
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("get: %w: %s", cas.ErrNotFound, ref.Digest)
	}
	if err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	data, err := codec.ReadVerified(file, ref)
	if err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	return data, nil
}

// List implements cas.Store. Files that are not objects are passed over.
func (s *Store) List(ctx context.Context, scope cas.Scope, fn func(cas.Ref) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	prefix, err := cas.ObjectsPrefix(scope)
	if err != nil {
		return err
	}
	top := filepath.Join(s.root, filepath.FromSlash(prefix))
	return filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // nothing stored yet, or purged meanwhile
		}
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rest, err := filepath.Rel(top, path)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if digest, ok := cas.ParseObjectKey(filepath.ToSlash(rest)); ok && entry.Type().IsRegular() {
			return fn(cas.Ref{Digest: digest})
		}
		return nil
	})
}

// Purge implements cas.Store: it removes the session's whole folder. When it fails, some objects may be gone.
func (s *Store) Purge(ctx context.Context, scope cas.Scope) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	objects, err := cas.ObjectsPrefix(scope)
	if err != nil {
		return err
	}
	whole, err := cas.ScopePrefix(scope)
	if err != nil {
		return err
	}
	defer s.dirs.clear()
	fans, err := os.ReadDir(filepath.Join(s.root, filepath.FromSlash(objects)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("purge: %w", err)
	}
	for _, fan := range fans {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := os.RemoveAll(filepath.Join(s.root, filepath.FromSlash(objects), fan.Name())); err != nil {
			return fmt.Errorf("purge: %w", err)
		}
	}
	dir := filepath.Join(s.root, filepath.FromSlash(whole))
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	if err := syncDir(filepath.Dir(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("purge: %w", err)
	}
	return nil
}

func (s *Store) path(scope cas.Scope, digest cas.Digest) (string, error) {
	key, err := cas.Key(scope, digest)
	if err != nil {
		return "", err
	}
	return filepath.Join(s.root, filepath.FromSlash(key)), nil
}

// maxDirs bounds what a dirSet remembers: some 200 bytes each.
const maxDirs = 16384

// dirSet remembers folders whose entries this process has made durable. Forgetting one costs a sync, no more.
type dirSet struct {
	mu   sync.Mutex
	dirs map[string]struct{}
}

func (d *dirSet) has(dir string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.dirs[dir]
	return ok
}

func (d *dirSet) add(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dirs == nil || len(d.dirs) >= maxDirs {
		d.dirs = map[string]struct{}{}
	}
	d.dirs[dir] = struct{}{}
}

func (d *dirSet) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dirs = nil
}
