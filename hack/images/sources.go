package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source is a program that becomes an image.
type source struct {
	// name is the program's and the image's, title a line about it.
	name, title string
	// module is the folder of its module below the top folder, pkg the package there.
	module, pkg string
	// licence is the module whose licence goes with it, and its SPDX name; the project's own when empty.
	licenceModule, licence string
	// file is the program when it was built already.
	file string
}

// sets are what is built together.
var sets = map[string][]source{
	"product": {
		{name: "manager", title: "agentloop's controllers and workers", module: ".", pkg: "./cmd/manager"},
		{name: "viewer", title: "agentloop's trajectory API and page", module: ".", pkg: "./cmd/viewer"},
		// For try-outs only. Production brings its own.
		{
			name: "nats-server", title: "NATS server, unchanged", module: "hack/services", pkg: "github.com/nats-io/nats-server/v2",
			licenceModule: "github.com/nats-io/nats-server/v2", licence: "Apache-2.0",
		},
	},
	"test": {
		{name: "modelserver", title: "scripted model server", module: ".", pkg: "./test/modelserver/cmd/modelserver"},
		{name: "s3server", title: "S3 server on a folder", module: "hack/services", pkg: "./cmd/s3server"},
		{name: "pause", title: "holds the namespaces of a Pod", module: ".", pkg: "./hack/e2e/pause"},
	},
}

// licences are the texts that go into the image, by file name.
func (s source) licences(root string) (map[string][]byte, error) {
	texts := map[string][]byte{}
	folder := root
	if s.licenceModule != "" {
		command := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", s.licenceModule)
		command.Dir = filepath.Join(root, s.module)
		raw, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", s.licenceModule, err)
		}
		folder = strings.TrimSpace(string(raw))
	}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		switch {
		case err == nil:
			texts[name] = text
		case name == "LICENSE":
			return nil, fmt.Errorf("%s has no licence: %w", folder, err)
		}
	}
	return texts, nil
}

// licenceName is the SPDX name of the licence of the program itself.
func (s source) licenceName() string {
	if s.licence != "" {
		return s.licence
	}
	return "Apache-2.0"
}
