package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// program is a whole project in a folder of its own: a module with one program, and a licence.
func program(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"LICENSE": "a licence", "NOTICE": "a notice", "p/go.mod": "module example.com/p\n\ngo 1.26.0\n",
		"p/main.go": "package main\n\nfunc main() { println(\"hello\") }\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

var subject = source{name: "p", title: "a program", module: "p", pkg: "."}

// built builds the subject in a folder of its own and returns the folder of the results and the digest.
func built(t *testing.T) (out, digest string) {
	t.Helper()
	out = t.TempDir()
	c := config{
		root: program(t), out: out, version: "1", registry: "example.com", created: time.Unix(1700000000, 0).UTC(),
		platforms: []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}},
	}
	digest, _, err := c.build(t.Context(), t.TempDir(), subject)
	if err != nil {
		t.Fatal(err)
	}
	return out, digest
}

// TestReproducible builds the same sources in two folders and wants the same bytes everywhere.
func TestReproducible(t *testing.T) {
	first, digest := built(t)
	second, again := built(t)
	if digest != again {
		t.Errorf("digests: %s and %s", digest, again)
	}
	for _, name := range []string{"p.tar", "p-linux-amd64.cdx.json", "p-linux-arm64.cdx.json"} {
		a, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs", name)
		}
	}
}

// unpacked is the OCI layout of an archive.
func unpacked(t *testing.T, archive string) layout.Path {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	folder := t.TempDir()
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return layout.Path(folder)
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, header.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestArchive reads an archive as a container runtime does.
func TestArchive(t *testing.T) {
	out, digest := built(t)
	index, err := unpacked(t, filepath.Join(out, "p.tar")).ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	outer, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(outer.Manifests) != 1 || outer.Manifests[0].Digest.String() != digest || outer.Manifests[0].Annotations["io.containerd.image.name"] != "example.com/p:1" {
		t.Fatalf("the archive holds %+v, want %s", outer.Manifests, digest)
	}
	inner, err := index.ImageIndex(outer.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		image, err := inner.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, m.Platform.Architecture)
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("platforms: %v", platforms)
	}
}

func checkImage(t *testing.T, image v1.Image, architecture string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != architecture || config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/p"}) ||
		config.Created.Unix() != 1700000000 || config.Config.Labels["org.opencontainers.image.licenses"] != "Apache-2.0" {
		t.Errorf("%s: config %+v", architecture, config)
	}
	files := contents(t, image)
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{"etc/", "etc/group", "etc/passwd", "etc/ssl/", "etc/ssl/certs/", "etc/ssl/certs/ca-certificates.crt", "licenses/", "licenses/LICENSE", "licenses/NOTICE", "p"}
	if !slices.Equal(names, want) {
		t.Errorf("%s: files %v, want %v", architecture, names, want)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]) {
		t.Error("the certificate authorities cannot be read")
	}
	linked, err := elf.NewFile(bytes.NewReader(files["p"]))
	if err != nil {
		t.Fatal(err)
	}
	if machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[architecture]; linked.Machine != machine {
		t.Errorf("%s: the program is for %s", architecture, linked.Machine)
	}
	if libraries, err := linked.ImportedLibraries(); err != nil || len(libraries) > 0 || linked.Section(".interp") != nil {
		t.Errorf("%s: the program is not static: %v, %v", architecture, libraries, err)
	}
}

// contents are the files of all layers; everything must belong to root and be closed to others' writing.
func contents(t *testing.T, image v1.Image) map[string][]byte {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, layer := range layers {
		opened, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(opened); ; {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if header.Uid != 0 || header.Gid != 0 || header.Mode&0o022 != 0 || header.ModTime.Unix() != 0 {
				t.Errorf("%s: %+v", header.Name, header)
			}
			if out[header.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestBillOfMaterials holds the bill of this very test program, which has many modules, to CycloneDX's own schema and to what
// the linker says.
func TestBillOfMaterials(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := billOfMaterials(subject, "1", self)
	if err != nil {
		t.Fatal(err)
	}
	validate(t, raw)
	var bill struct {
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(raw, &bill); err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, c := range bill.Components {
		listed[c.Name] = c.Version
		if !strings.HasPrefix(c.Purl, "pkg:golang/"+c.Name+"@") {
			t.Errorf("%s has the package URL %s", c.Name, c.Purl)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "version", "-m", self).Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := 0
	for line := range strings.SplitSeq(string(out), "\n") {
		if fields := strings.Fields(line); len(fields) >= 3 && fields[0] == "dep" {
			modules++
			if listed[fields[1]] != fields[2] {
				t.Errorf("%s %s is linked, the bill says %q", fields[1], fields[2], listed[fields[1]])
			}
		}
	}
	if modules < 3 || len(listed) != modules+1 {
		t.Errorf("%d modules are linked, %d components listed", modules, len(listed))
	}
}

// validate checks a bill against the schema of CycloneDX 1.6, which comes with its Go module.
func validate(t *testing.T, bill []byte) {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	for address, name := range map[string]string{
		"http://cyclonedx.org/schema/bom-1.6.schema.json": "bom-1.6.schema.json", "http://cyclonedx.org/schema/spdx.schema.json": "spdx.schema.json",
		"http://cyclonedx.org/schema/jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		raw, err := os.Open(filepath.Join(strings.TrimSpace(string(folder)), "schema", name))
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(address, document); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(bill))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(document); err != nil {
		t.Errorf("the bill breaks the schema: %v\n%s", err, bill)
	}
	var broken map[string]any
	if err := json.Unmarshal(bill, &broken); err != nil {
		t.Fatal(err)
	}
	broken["specVersion"] = 6
	if schema.Validate(broken) == nil {
		t.Error("the schema admits what is no bill: the check is worth nothing")
	}
}
