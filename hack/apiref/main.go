// Command apiref writes the reference of the kinds from their CRDs: every field with its type, default and bounds, every rule
// with the words in which the API server refuses, columns and selectable fields.
//
// Guarantees: what the CRDs say is said completely and in a fixed order; the same CRDs give the same page. What is in the
// schemas and has no place on the page is an error and not left out. The published generators of such pages were no choice: they
// leave the rules out.
//
//	apiref FOLDER >docs/spec/v1alpha1/reference.md
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: apiref FOLDER")
		os.Exit(2)
	}
	page, err := fromFolder(os.Args[1])
	if err == nil {
		_, err = os.Stdout.Write(page)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "apiref:", err)
		os.Exit(1)
	}
}

func fromFolder(folder string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no CRDs in " + folder)
	}
	var kinds []apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		kinds = append(kinds, crd)
	}
	var out bytes.Buffer
	p := &page{out: &out}
	p.write(kinds)
	return out.Bytes(), p.err()
}
