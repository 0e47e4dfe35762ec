// Package openapi holds the descriptions of the HTTP interfaces as they are published.
//
// Guarantees: the bytes are those of the files beside this one at build time; the viewer's tests hold every answer to
// them.
package openapi

import _ "embed"

// Trajectory is the OpenAPI 3.1 document of the trajectory API, in YAML.
//
//go:embed trajectory.v1.yaml
var Trajectory []byte
