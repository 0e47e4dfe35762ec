// Command images builds container images from Go programs without a daemon and writes each as an OCI archive that holds one
// image per platform.
//
// Guarantees: the same sources, module versions and Go release give the same bytes, whatever machine and folder they are built
// in; an image has one static program, certificate authorities, a user without rights and the licences, and nothing else. Beside
// each archive stand bills of materials in CycloneDX, made from what the linker wrote into the programs.
//
//	images -out FOLDER [-platforms linux/amd64,linux/arm64] [-set product] [-version V] [-program NAME=FILE ...]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// config is what the command line says.
type config struct {
	root, out, set, version, registry string
	platforms                         []v1.Platform
	created                           time.Time
	// programs are images of programs that were built elsewhere, for this machine only.
	programs []source
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func parse(args []string) (config, error) {
	var c config
	var platforms string
	fs := flag.NewFlagSet("images", flag.ContinueOnError)
	fs.StringVar(&c.root, "root", "../..", "the project's top folder")
	fs.StringVar(&c.out, "out", "", "folder that the archives are written to")
	fs.StringVar(&c.set, "set", "product", "product, or test for what tests on a real node need")
	fs.StringVar(&c.version, "version", "0.1.0", "tag of the images")
	fs.StringVar(&c.registry, "registry", "localhost/agentloop", "what stands before an image's name")
	fs.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "platforms, with commas between")
	fs.Func("program", "`NAME=FILE`: an image of a static program that was built already", func(value string) error {
		name, file, found := strings.Cut(value, "=")
		if !found {
			return fmt.Errorf("%q is not NAME=FILE", value)
		}
		c.programs = append(c.programs, source{name: name, file: file, title: name})
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if c.out == "" || fs.NArg() > 0 {
		return c, fmt.Errorf("usage: images -out FOLDER [flags]; got %q", fs.Args())
	}
	for _, name := range strings.Split(platforms, ",") {
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return c, fmt.Errorf("-platforms: %w", err)
		}
		c.platforms = append(c.platforms, *platform)
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return c, fmt.Errorf("SOURCE_DATE_EPOCH is the time that the images bear, in seconds since 1970: %w", err)
	}
	c.created = time.Unix(seconds, 0).UTC()
	return c, nil
}

func run(ctx context.Context, args []string) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	sources := append(sets[c.set], c.programs...)
	if len(sources) == 0 {
		return fmt.Errorf("-set %s: there are product and test", c.set)
	}
	for _, s := range sources {
		begun := time.Now()
		digest, size, err := c.build(ctx, work, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(os.Stderr, "images: %s in %.0f s\n", s.name, time.Since(begun).Seconds())
		fmt.Printf("%s/%s:%s %s %d\n", c.registry, s.name, c.version, digest, size)
	}
	return nil
}

// build makes the image of all platforms, its archive, and the bills of materials.
func (c config) build(ctx context.Context, work string, s source) (digest string, size int64, err error) {
	var images []platformImage
	for _, platform := range c.platforms {
		binary := s.file
		if binary == "" {
			binary = filepath.Join(work, s.name+"-"+platform.Architecture)
			if err := s.compile(ctx, c.root, binary, platform); err != nil {
				return "", 0, err
			}
		}
		image, err := c.image(s, binary)
		if err != nil {
			return "", 0, err
		}
		if image, err = bearing(image, platform, c.created); err != nil {
			return "", 0, err
		}
		images = append(images, platformImage{image, platform})
		bill, err := billOfMaterials(s, c.version, binary)
		if err != nil {
			return "", 0, err
		}
		if err := os.WriteFile(filepath.Join(c.out, fmt.Sprintf("%s-%s-%s.cdx.json", s.name, platform.OS, platform.Architecture)), bill, 0o644); err != nil {
			return "", 0, err
		}
	}
	return archive(filepath.Join(c.out, s.name+".tar"), fmt.Sprintf("%s/%s", c.registry, s.name), c.version, images)
}

// compile builds a static program. Paths and the state of version control stay out of it.
func (s source) compile(ctx context.Context, root, out string, platform v1.Platform) error {
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w -buildid=", "-o", out, s.pkg)
	command.Dir = filepath.Join(root, s.module)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Architecture, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off")
	command.Stderr = os.Stderr
	fmt.Fprintf(os.Stderr, "images: building %s for %s\n", s.name, platform)
	return command.Run()
}
