package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// billOfMaterials lists the modules that the linker says a program consists of, in CycloneDX. It bears neither time nor serial
// number: the same program has the same one.
func billOfMaterials(s source, version, binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("what it was linked from: %w", err)
	}
	raw, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	bom := cyclonedx.NewBOM()
	root := "program"
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: root, Type: cyclonedx.ComponentTypeApplication, Name: s.name, Version: version, Description: s.title,
		Hashes:   &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum(raw)}},
		Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: s.licenceName()}}},
	}}
	components := []cyclonedx.Component{{
		BOMRef: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"), Type: cyclonedx.ComponentTypeLibrary, Name: "std",
		Version: strings.TrimPrefix(info.GoVersion, "go"), PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	}}
	for _, module := range linked(info, s) {
		components = append(components, component(module))
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: root, Dependencies: &refs}}
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// linked are the modules of a program besides its own: a module that replaces another one stands in its place.
func linked(info *debug.BuildInfo, s source) []*debug.Module {
	var out []*debug.Module
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		out = append(out, module)
	}
	if s.licenceModule != "" && info.Main.Path == s.licenceModule {
		out = append(out, &info.Main)
	}
	return out
}

func component(module *debug.Module) cyclonedx.Component {
	url := "pkg:golang/" + module.Path + "@" + strings.ReplaceAll(module.Version, "+", "%2B")
	c := cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: module.Path, Version: module.Version, PackageURL: url}
	if module.Sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: module.Sum}}
	}
	return c
}
