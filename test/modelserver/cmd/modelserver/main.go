// Command modelserver runs the scripted model server of package modelserver: a model provider whose answers are written
// in advance. It prints its address and nothing of what it is asked or answers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/agentloop/agentloop/test/modelserver"
)

const usage = `modelserver answers model requests from scripts: Anthropic Messages (POST /v1/messages), OpenAI Chat
Completions (POST /v1/chat/completions) and OpenAI Responses (POST /v1/responses), streamed or not. It refuses what the
providers refuse. docs/format/modelscript.md describes the scripts.

Usage: modelserver [flags]

Control over HTTP:
  PUT    /_scripts?prefix=P   load the YAML in the body; P is put before the model ids
  GET    /_scripts            which replies have been used
  DELETE /_scripts?model=ID   unload a model and forget its requests
  GET    /_requests?model=ID  the requests that named the model, a JSON array
  GET    /healthz             200 as soon as it serves

Flags:
`

// options are the command's flags.
type options struct {
	listen      string
	addressFile string
	prefix      string
	scripts     paths
}

// paths collects a flag that may be given several times.
type paths []string

func (p *paths) String() string { return fmt.Sprint(*p) }

func (p *paths) Set(v string) error {
	*p = append(*p, v)
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "modelserver:", err)
		os.Exit(1)
	}
}

func parse(args []string, errs io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("modelserver", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() {
		fmt.Fprint(errs, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` to serve on; port 0 takes a free one")
	flags.StringVar(&o.addressFile, "print-address-file", "", "`file` that gets the base URL, in one step, once the server serves")
	flags.StringVar(&o.prefix, "prefix", "", "`prefix` of the model ids of --script files")
	flags.Var(&o.scripts, "script", "model script `file` to load; may be given several times")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; scripts are given with --script", flags.Arg(0))
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	o, err := parse(args, errs)
	if err != nil {
		return err
	}
	models := modelserver.New(modelserver.Options{})
	for _, path := range o.scripts {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, err := models.LoadYAML(raw, o.prefix); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	server := &http.Server{Handler: models, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if err := announce(o.addressFile, url); err != nil {
		return errors.Join(err, server.Close())
	}
	fmt.Fprintln(out, "modelserver serves on", url)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	models.Close()
	return server.Close()
}

// announce writes the URL to a file that appears complete or not at all.
func announce(path, url string) error {
	if path == "" {
		return nil
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".modelserver-*")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(temp, url); err != nil {
		return errors.Join(err, temp.Close(), os.Remove(temp.Name()))
	}
	if err := temp.Close(); err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return os.Rename(temp.Name(), path)
}
