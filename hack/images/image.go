package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is the user and group that programs run as.
const nobody = 65532

// platformImage is the image of one platform.
type platformImage struct {
	image    v1.Image
	platform v1.Platform
}

// file is an entry of a layer.
type file struct {
	path string
	mode int64
	data []byte
}

// authorities are the certificates that Mozilla trusts, as one PEM file. Those that it trusts with conditions are left out, because a
// file cannot say them.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
		}
	}
	return out.Bytes()
}

// layerOf makes a layer whose bytes depend on nothing but the files.
func layerOf(files []file) (v1.Layer, error) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{".": true}
	for _, f := range files {
		var missing []string
		for dir := filepath.Dir(f.path); !made[dir]; dir = filepath.Dir(dir) {
			made[dir] = true
			missing = append(missing, dir)
		}
		slices.Reverse(missing)
		for _, dir := range missing {
			if err := w.WriteHeader(&tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}); err != nil {
				return nil, err
			}
		}
		if err := w.WriteHeader(&tar.Header{Name: f.path, Typeflag: tar.TypeReg, Mode: f.mode, Size: int64(len(f.data)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
}

// image has two layers: what all images have, and the program.
func (c config) image(s source, binary string) (v1.Image, error) {
	base := []file{
		{"etc/passwd", 0o644, fmt.Appendf(nil, "root:x:0:0:root:/:/none\nnonroot:x:%d:%d:nonroot:/:/none\n", nobody, nobody)},
		{"etc/group", 0o644, fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", nobody)},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	own := []file{{s.name, 0o755, program}}
	texts, err := s.licences(c.root)
	if err != nil {
		return nil, err
	}
	for name, text := range texts {
		own = append(own, file{"licenses/" + name, 0o644, text})
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, files := range [][]file{base, own} {
		layer, err := layerOf(files)
		if err != nil {
			return nil, err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, err
		}
	}
	return mutate.Config(image, v1.Config{
		Entrypoint: []string{"/" + s.name}, User: fmt.Sprintf("%d:%d", nobody, nobody), WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title": s.name, "org.opencontainers.image.description": s.title, "org.opencontainers.image.version": c.version,
			"org.opencontainers.image.licenses": s.licenceName(), "org.opencontainers.image.source": "https://github.com/agentloop/agentloop",
		},
	})
}

// bearing says what an image is for and from when it is.
func bearing(image v1.Image, platform v1.Platform, created time.Time) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, v1.Time{Time: created}
	config.History = nil
	return mutate.ConfigFile(image, config)
}

// archive writes an OCI layout as one tar file and returns the digest of its image index. The names are those by which
// containerd and others know it after the import.
func archive(path, name, version string, images []platformImage) (digest string, size int64, err error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: i.image, Descriptor: v1.Descriptor{Platform: &i.platform}})
	}
	hash, err := index.Digest()
	if err != nil {
		return "", 0, err
	}
	folder, err := os.MkdirTemp("", "layout-")
	if err != nil {
		return "", 0, err
	}
	defer os.RemoveAll(folder)
	at, err := layout.Write(folder, empty.Index)
	if err != nil {
		return "", 0, err
	}
	err = at.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": name + ":" + version, "org.opencontainers.image.ref.name": version,
	}))
	if err != nil {
		return "", 0, err
	}
	size, err = pack(folder, path)
	return hash.String(), size, err
}

// pack writes a folder as a tar file, sorted and without times.
func pack(folder, path string) (int64, error) {
	out, err := os.Create(path + ".new")
	if err != nil {
		return 0, err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(folder, func(from string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, from)
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(raw)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err = w.Write(raw)
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	info, err := out.Stat()
	if err != nil {
		return 0, err
	}
	if err := out.Close(); err != nil {
		return 0, err
	}
	return info.Size(), os.Rename(path+".new", path)
}

// sum is the sha256 of bytes, in hex.
func sum(raw []byte) string {
	hash := sha256.Sum256(raw)
	return hex.EncodeToString(hash[:])
}
