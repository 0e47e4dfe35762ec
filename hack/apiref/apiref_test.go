package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden file anew")

// TestPage makes the page of a small kind that has every sort of bound.
func TestPage(t *testing.T) {
	got, err := fromFolder("testdata/crd")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/reference.golden", got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/reference.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestAnchors wants the links from fields to the sections of their objects to lead there.
func TestAnchors(t *testing.T) {
	page, err := fromFolder("../../config/crd")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(page), -1) {
		anchor := strings.ToLower(strings.ReplaceAll(match[1], ".", ""))
		if sections[anchor] {
			t.Errorf("two sections have the anchor #%s", anchor)
		}
		sections[anchor] = true
	}
	links := regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(string(page), -1)
	if len(links) < 50 {
		t.Errorf("only %d links", len(links))
	}
	for _, match := range links {
		if !sections[match[1]] {
			t.Errorf("no section has the anchor #%s", match[1])
		}
	}
}

func TestWhatCannotBeSaidFails(t *testing.T) {
	small, err := os.ReadFile("testdata/crd/small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ old, new, fails string }{
		"alternatives of types":    {"type: boolean", "type: boolean\n                nullable: true", "no words for nullable"},
		"a field without a type":   {"type: boolean", "description: what", "has no type"},
		"a field that CRDs lack":   {"type: boolean", "colour: red", "unknown field"},
		"something that is no CRD": {"spec:", "[", "small.yaml"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			text := strings.Replace(string(small), c.old, c.new, 1)
			if err := os.WriteFile(filepath.Join(folder, "small.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := fromFolder(folder); err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("error %v, want %q", err, c.fails)
			}
		})
	}
	if _, err := fromFolder(t.TempDir()); err == nil {
		t.Error("an empty folder gave a page")
	}
}
