// Package web holds the viewer's page as it was built.
//
// Guarantees: the files are those of web/dist at build time, so a binary needs no file of its own to serve the page; a
// build that lacks index.html does not compile.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist dist/index.html
var files embed.FS

// Dist returns the built page: index.html, and under assets/ files whose names change with their content.
func Dist() fs.FS {
	dist, err := fs.Sub(files, "dist")
	if err != nil {
		// The name is a constant that the compiler has resolved.
		panic(err)
	}
	return dist
}
