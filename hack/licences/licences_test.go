package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTell(t *testing.T) {
	const grant = "Permission is hereby granted, free of charge, to any person. The above copyright notice and this permission notice shall be included."
	const bsd = "Redistribution and use in source and binary forms, with or without modification. Redistributions in binary form must reproduce the above."
	cases := map[string]struct{ text, want string }{
		"Apache, over lines":                    {"   Apache License\n   Version 2.0, January 2004", "Apache-2.0"},
		"Apache, as a header":                   {"Licensed under the Apache License, Version 2.0", "Apache-2.0"},
		"MIT":                                   {"Copyright somebody\n\n" + grant, "MIT"},
		"MIT that forbids selling":              {"Commons Clause\n" + grant, "MIT with the Commons Clause"},
		"BSD with two clauses":                  {bsd, "BSD-2-Clause"},
		"BSD with three":                        {bsd + " Neither the name of the holder", "BSD-3-Clause"},
		"BSD with three, in other words":        {bsd + " The names may not be used to endorse or promote products", "BSD-3-Clause"},
		"ISC":                                   {"Permission to use, copy, modify, and distribute this software, provided that the above copyright notice", "ISC"},
		"BSD without clauses":                   {"Permission to use, copy, modify, and/or distribute this software for any purpose is hereby granted.", "0BSD"},
		"MPL, which names the GPL farther down": {"Mozilla Public License Version 2.0" + strings.Repeat(" x", begins) + " GNU General Public License", "MPL-2.0"},
		"AGPL":                                  {"GNU AFFERO GENERAL PUBLIC LICENSE Version 3", "AGPL"},
		"LGPL, which names the GPL":             {"GNU LESSER GENERAL PUBLIC LICENSE. This version of the GNU Lesser General Public License incorporates the GNU General Public License", "LGPL"},
		"GPL":                                   {"GNU GENERAL PUBLIC LICENSE Version 2", "GPL"},
		"one that is not free":                  {"Business Source License 1.1", "BUSL"},
		"words of their own":                    {"You may use this on Sundays.", unknown},
		"nothing":                               {"", unknown},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tell(c.text); got != c.want {
				t.Errorf("told %q, want %q", got, c.want)
			}
		})
	}
}

func TestModule(t *testing.T) {
	write := func(t *testing.T, files map[string]string) string {
		t.Helper()
		folder := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return folder
	}
	cases := map[string]struct {
		files   map[string]string
		licence string
		kept    []string
	}{
		"a licence and a notice":              {map[string]string{"LICENSE": "Apache License Version 2.0", "NOTICE": "thanks", "README.md": "hi"}, "Apache-2.0", []string{"LICENSE", "NOTICE"}},
		"another spelling":                    {map[string]string{"Licence.md": "Mozilla Public License, version 2.0"}, "MPL-2.0", []string{"Licence.md"}},
		"no licence":                          {map[string]string{"README.md": "MIT"}, "missing", nil},
		"the first file tells nothing":        {map[string]string{"LICENSE-3RD": "see there", "LICENSE-MIT": "This is free and unencumbered software"}, "Unlicense", []string{"LICENSE-3RD", "LICENSE-MIT"}},
		"a licence whose words are not known": {map[string]string{"COPYING": "ask me"}, unknown, []string{"COPYING"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := module("example.com/a", "v1.0.0", write(t, c.files))
			if err != nil {
				t.Fatal(err)
			}
			var kept []string
			for _, file := range p.files {
				kept = append(kept, filepath.Base(file))
			}
			if p.licence != c.licence {
				t.Errorf("licence %q, want %q", p.licence, c.licence)
			}
			if diff := cmp.Diff(c.kept, kept); diff != "" {
				t.Errorf("files that go with copies: -want +got\n%s", diff)
			}
		})
	}
}

func TestNpmPackages(t *testing.T) {
	cases := map[string]struct {
		lock  string
		want  []part
		fails string
	}{
		"what is for development is left out": {
			lock: `{"packages": {"": {"license": "Apache-2.0"}, "node_modules/@a/b": {"version": "1.0.0", "license": "MIT"},
				"node_modules/c": {"version": "2.0.0", "license": "GPL-3.0", "dev": true}, "node_modules/@a/b/node_modules/d": {"version": "3.0.0"}}}`,
			want: []part{{name: "@a/b", version: "1.0.0", licence: "MIT"}, {name: "d", version: "3.0.0", licence: "missing"}},
		},
		"nothing in it": {lock: `{"packages": {"": {}}}`, fails: "it has no packages"},
		"no JSON":       {lock: `<html>`, fails: "invalid character"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := npmPackages([]byte(c.lock))
			if (err == nil) != (c.fails == "") || (err != nil && !strings.Contains(err.Error(), c.fails)) {
				t.Fatalf("error %v, want %q", err, c.fails)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(part{})); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	cases := map[string]bool{"MIT": true, "MPL-2.0": true, "AGPL": false, "GPL": false, "AGPL-3.0-only": false, "MIT OR GPL-2.0": false, unknown: false, "missing": false}
	for licence, may := range cases {
		if err := refused([]part{{name: "a", licence: licence}}); (err == nil) != may {
			t.Errorf("%s: %v, want it to be admitted: %v", licence, err, may)
		}
	}
}

func TestCopyTexts(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	text := filepath.Join(from, "LICENSE")
	if err := os.WriteFile(text, []byte("words"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyTexts(to, []part{{name: "example.com/a/v2", files: []string{text}}}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(to, "example.com", "a", "v2", "LICENSE"))
	if err != nil || string(got) != "words" {
		t.Errorf("copied %q, %v", got, err)
	}
}
