package catalogue

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

const usage = `manager models suggests ModelProvider manifests from a catalogue of public providers that is built in.
It asks no network, and nothing else decides by what the catalogue says.

  manager models                           list the providers
  manager models --provider P              list a provider's models
  manager models --provider P --model M    print a manifest that declares the model; --model may stand several times
  manager models --provider P -o yaml      print a manifest that declares all of the provider's models
`

// request is what the command line of "manager models" says.
type request struct {
	provider, name, output string
	models                 []string
}

func parse(args []string, out io.Writer) (request, error) {
	var c request
	fs := flag.NewFlagSet("manager models", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), usage, "\nFlags:\n")
		fs.PrintDefaults()
	}
	fs.StringVar(&c.provider, "provider", "", "id of a provider of the catalogue")
	fs.Func("model", "`id` of a model to declare; may stand several times, or hold ids with commas between", func(ids string) error {
		for id := range strings.SplitSeq(ids, ",") {
			if id == "" {
				return errors.New("an id is empty")
			}
			c.models = append(c.models, id)
		}
		return nil
	})
	fs.StringVar(&c.name, "name", "", "name of the ModelProvider and its Secret; the provider's id when empty")
	fs.StringVar(&c.output, "o", "", "table or yaml; yaml when a model is named, else table")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	switch {
	case fs.NArg() > 0:
		return c, fmt.Errorf("unknown argument %q; see manager models --help", fs.Arg(0))
	case c.output == "" && len(c.models) > 0:
		c.output = "yaml"
	case c.output == "":
		c.output = "table"
	case c.output != "table" && c.output != "yaml":
		return c, fmt.Errorf("-o %s: use table or yaml", c.output)
	}
	if c.output == "yaml" && c.provider == "" && len(c.models) == 0 {
		return c, errors.New("-o yaml needs --provider or --model")
	}
	if c.output == "table" && c.name != "" {
		return c, errors.New("--name needs --model or -o yaml")
	}
	return c, nil
}

// Run is the command "manager models": it writes a list or a manifest to stdout, and help to stderr. Errors say what to
// do; flag.ErrHelp is returned when help was asked for.
func Run(args []string, stdout, stderr io.Writer) error {
	c, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if c.provider == "" && len(c.models) == 0 {
		return listProviders(stdout)
	}
	p, err := c.find()
	if err != nil {
		return err
	}
	models, err := p.Select(c.models)
	if err != nil {
		return err
	}
	if c.output == "table" {
		return listModels(stdout, models)
	}
	if c.name == "" {
		c.name = p.ID
	}
	manifest, err := p.Manifest(c.name, models)
	if err != nil {
		return err
	}
	_, err = io.WriteString(stdout, manifest)
	return err
}

func (c request) find() (Provider, error) {
	if c.provider == "" {
		return Offering(c.models)
	}
	return Find(c.provider)
}

func listProviders(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "PROVIDER\tPROTOCOL\tMODELS\tNAME")
	for _, p := range Providers() {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", p.ID, p.Protocol, len(p.Models), p.Name)
	}
	return w.Flush()
}

func listModels(out io.Writer, models []Model) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "MODEL\tWINDOW\tDEFAULT OUTPUT\tTHINKING\tIMAGES\tUSD/MTOK IN\tOUT")
	for _, m := range models {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%t\t%s\t%s\n", m.ID, m.ContextWindow, m.Output, m.Thinking, m.Images, dash(m.InputPrice), dash(m.OutPrice))
	}
	return w.Flush()
}

// dash fills an empty cell.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
