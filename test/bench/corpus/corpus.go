// Package corpus gathers text of the kinds that agents carry, to measure token estimates on: source code, data, logs,
// diffs, base64 and prose in ten languages.
//
// Guarantees: nothing is downloaded; texts come from this repository, from the Go distribution and the module cache, or
// are made up here from a fixed seed; the same files give the same samples.
package corpus

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind is a kind of text.
type Kind string

// Sample is one text.
type Sample struct {
	Kind Kind
	Text string
}

// Size is about how many bytes a sample has.
const Size = 8 << 10

// perKind is how many samples there are of each kind, if there is enough text.
const perKind = 40

// Load returns all samples, kind by kind. root is the root of this repository.
func Load(ctx context.Context, root string) ([]Sample, error) {
	random := rand.New(rand.NewPCG(17, 4))
	goroot, err := output(ctx, root, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	api, err := output(ctx, root, "list", "-m", "-f", "{{.Dir}}", "k8s.io/api")
	if err != nil {
		return nil, err
	}
	var samples []Sample
	var source []string
	for _, from := range []struct {
		kind    Kind
		folders []string
		endings []string
	}{
		{"go", []string{filepath.Join(root, "pkg"), filepath.Join(goroot, "src", "net"), filepath.Join(goroot, "src", "encoding")}, []string{".go"}},
		{"typescript", []string{filepath.Join(root, "web", "src"), filepath.Join(root, "web", "tests")}, []string{".ts", ".tsx"}},
		{"json", []string{filepath.Join(root, "pkg"), filepath.Join(api, "testdata", "HEAD")}, []string{".json"}},
		{"yaml", []string{filepath.Join(root, "config"), filepath.Join(api, "testdata", "HEAD")}, []string{".yaml"}},
	} {
		text, err := read(from.folders, from.endings)
		if err != nil {
			return nil, err
		}
		cut := spread(text, perKind)
		if len(cut) < perKind/4 {
			return nil, fmt.Errorf("only %d samples of %s in %v", len(cut), from.kind, from.folders)
		}
		if from.kind == "go" {
			source = cut
		}
		samples = appendKind(samples, from.kind, cut)
	}
	samples = appendKind(samples, "logs", repeated(func() string { return logs(random) }))
	samples = appendKind(samples, "diff", diffs(random, source))
	samples = appendKind(samples, "base64", base64s(random, source))
	samples = appendKind(samples, "ids", repeated(func() string { return ids(random) }))
	for _, language := range languages {
		samples = appendKind(samples, Kind("prose "+language.name), repeated(func() string { return language.write(random) }))
	}
	return samples, nil
}

func output(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	raw, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(raw)), nil
}

func appendKind(samples []Sample, kind Kind, texts []string) []Sample {
	for _, text := range texts {
		samples = append(samples, Sample{kind, text})
	}
	return samples
}

func repeated(write func() string) []string {
	texts := make([]string, perKind)
	for i := range texts {
		texts[i] = write()
	}
	return texts
}

// maxRead bounds what is read of each folder, so that one large folder does not stand for all of a kind.
const maxRead = 2 << 20

// read returns the text of the files below folders, in order of their paths.
func read(folders, endings []string) ([]string, error) {
	var texts []string
	for _, folder := range folders {
		size, files := 0, os.DirFS(folder)
		err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() || size > maxRead || !slices.Contains(endings, filepath.Ext(path)) {
				return nil
			}
			raw, err := fs.ReadFile(files, path)
			if err != nil {
				return err
			}
			if utf8.Valid(raw) {
				texts = append(texts, string(raw))
				size += len(raw)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// spread cuts texts into samples and returns n of them, spread evenly.
func spread(texts []string, n int) []string {
	var all []string
	for _, text := range texts {
		for len(text) >= Size/4 {
			end := min(Size, len(text))
			if line := strings.LastIndexByte(text[:end], '\n'); line > Size/4 {
				end = line + 1
			}
			for end < len(text) && !utf8.RuneStart(text[end]) {
				end++
			}
			all = append(all, text[:end])
			text = text[end:]
		}
	}
	if len(all) <= n {
		return all
	}
	chosen := make([]string, n)
	for i := range chosen {
		chosen[i] = all[i*len(all)/n]
	}
	return chosen
}
