// Package crd holds the generated definitions of the kinds, for programs that read manifests without an API server.
//
// Guarantees: the bytes are those of the files beside this one at build time.
package crd

import "embed"

// Files has one definition in YAML for each kind.
//
//go:embed *.yaml
var Files embed.FS
