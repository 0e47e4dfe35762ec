// Command licences tells the licence of every module that is linked into a program that we ship, on any platform that we ship
// it for, and of every npm package that is in the built page.
//
// Guarantees: a licence that is not in the list of those that may be, that cannot be told from its text, or that is missing
// fails; nothing is taken from anywhere but the modules' own files and the page's lock file.
//
//	licences                   prints the table
//	licences -write FILE       writes the page of the documentation
//	licences -check FILE       fails when that page is not what would be written
//	licences -texts FOLDER     copies the texts, and what NOTICE files say, for those who distribute programs
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	lockFile  = "web/package-lock.json"
	howToMend = "run make licences and commit the page"
)

func main() {
	write := flag.String("write", "", "file to which the page is written")
	check := flag.String("check", "", "file that has to be what would be written")
	texts := flag.String("texts", "", "folder into which licence texts and notices are copied")
	flag.Parse()
	if err := run(os.Stdout, *write, *check, *texts); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, write, check, texts string) error {
	parts, err := modules("./cmd/...")
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(lockFile)
	if err != nil {
		return err
	}
	packages, err := npmPackages(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", lockFile, err)
	}
	made := page(parts, packages)
	switch {
	case write != "":
		err = os.WriteFile(write, made, 0o644)
	case check != "":
		err = compare(check, made)
	case texts != "":
		err = copyTexts(texts, parts)
	default:
		table(out, append(parts, packages...))
	}
	return errors.Join(err, refused(append(parts, packages...)))
}

func compare(path string, made []byte) error {
	have, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, made) {
		return fmt.Errorf("%s is not what the modules and the page's packages say: %s", path, howToMend)
	}
	return nil
}

// copyTexts writes a folder for each module with the files that have to go with a copy of it.
func copyTexts(folder string, parts []part) error {
	for _, p := range parts {
		into := filepath.Join(folder, filepath.FromSlash(p.name))
		if err := os.MkdirAll(into, 0o755); err != nil {
			return err
		}
		for _, file := range p.files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(into, filepath.Base(file)), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func table(out io.Writer, parts []part) {
	for _, p := range parts {
		fmt.Fprintf(out, "%-12s %s %s\n", p.licence, p.name, p.version)
	}
}

// page is docs/licences.md.
func page(parts, packages []part) []byte {
	var b strings.Builder
	b.WriteString(`# Licences of what is linked in

Made by ` + "`make licences`" + ` and compared by ` + "`make verify`" + `, which fails when a licence is not one of
` + strings.Join(admitted, ", ") + `. Told from the text in each module, and for packages from npm as the lock file of the page says.
[NOTICE](../NOTICE) has the notices that go with copies; ` + "`hack/licences.sh -texts FOLDER`" + ` gathers all texts.

Tools that are only run here, such as the linter, are in modules of their own (` + "`hack`" + `) and in nothing that is built.

## Go modules in the programs

| module | version | licence |
|---|---|---|
`)
	rows(&b, parts)
	b.WriteString(`
## Packages from npm in the page

| package | version | licence |
|---|---|---|
`)
	rows(&b, packages)
	return []byte(b.String())
}

func rows(b *strings.Builder, parts []part) {
	for _, p := range parts {
		fmt.Fprintf(b, "| %s | %s | %s |\n", p.name, p.version, p.licence)
	}
}
