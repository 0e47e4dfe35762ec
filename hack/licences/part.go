package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// part is a module or package that is in something that we ship.
type part struct {
	name, version, licence string
	files                  []string // the licence, and notices that have to go with copies
}

// admitted are the licences that may be: permissive ones, and the MPL, whose files stay as they are.
var admitted = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense"}

// platforms are those that programs are built for; a module may be linked on one of them only.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"}

// modules lists what is linked into the programs.
func modules(pattern string) ([]part, error) {
	found := map[string]part{}
	for _, platform := range platforms {
		system, machine, _ := strings.Cut(platform, "/")
		cmd := exec.CommandContext(context.Background(), "go", "list", "-deps", "-json=Module", pattern)
		cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+machine, "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		raw, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", platform, err)
		}
		if err := addModules(found, raw); err != nil {
			return nil, err
		}
	}
	return sorted(found), nil
}

func addModules(found map[string]part, raw []byte) error {
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	for {
		var listed struct {
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		err := decoder.Decode(&listed)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		m := listed.Module
		if m == nil || m.Main {
			continue
		}
		if _, known := found[m.Path]; known {
			continue
		}
		p, err := module(m.Path, m.Version, m.Dir)
		if err != nil {
			return err
		}
		found[m.Path] = p
	}
}

func module(path, version, folder string) (part, error) {
	p := part{name: path, version: version, licence: "missing"}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return p, err
	}
	for _, entry := range entries {
		name := strings.ToUpper(entry.Name())
		isText := strings.HasPrefix(name, "LICENSE") || strings.HasPrefix(name, "LICENCE") || strings.HasPrefix(name, "COPYING")
		if entry.IsDir() || (!isText && !strings.HasPrefix(name, "NOTICE")) {
			continue
		}
		file := filepath.Join(folder, entry.Name())
		p.files = append(p.files, file)
		if !isText || (p.licence != "missing" && p.licence != unknown) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return p, err
		}
		p.licence = tell(string(text))
	}
	return p, nil
}

// npmPackages lists what the page is built from, by the lock file: everything in it that is not for development only.
func npmPackages(raw []byte) ([]part, error) {
	var lock struct {
		Packages map[string]struct {
			Version string `json:"version"`
			License string `json:"license"`
			Dev     bool   `json:"dev"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(raw, &lock); err != nil {
		return nil, err
	}
	found := map[string]part{}
	for path, p := range lock.Packages {
		if path == "" || p.Dev {
			continue
		}
		name := path
		if at := strings.LastIndex(path, "node_modules/"); at >= 0 {
			name = path[at+len("node_modules/"):]
		}
		found[path] = part{name: name, version: p.Version, licence: cmp.Or(p.License, "missing")}
	}
	if len(found) == 0 {
		return nil, errors.New("it has no packages")
	}
	return sorted(found), nil
}

func sorted(found map[string]part) []part {
	return slices.SortedFunc(maps.Values(found), func(a, b part) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.version, b.version)) })
}

// refused names the parts whose licence may not be.
func refused(parts []part) error {
	var bad []error
	for _, p := range parts {
		if !slices.Contains(admitted, p.licence) {
			bad = append(bad, fmt.Errorf("%s %s: licence %s: take something else in its place, or read its text and teach hack/licences", p.name, p.version, p.licence))
		}
	}
	return errors.Join(bad...)
}
