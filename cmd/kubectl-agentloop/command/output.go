package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// format is the value of -o.
type format struct {
	value string
	known []string
}

// The formats of -o.
const (
	formatText = ""
	formatJSON = "json"
	formatYAML = "yaml"
	formatName = "name"
)

// bind registers -o with the formats that a command has.
func (f *format) bind(c *cobra.Command, known ...string) {
	f.known = known
	c.Flags().StringVarP(&f.value, "output", "o", "", "Output format: "+strings.Join(known, ", ")+"; text when empty")
	// The completion of a flag fails only for a flag that there is not.
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if f.value != "" && !slices.Contains(f.known, f.value) {
			return usageError(c, fmt.Errorf("-o %s: use %s", f.value, strings.Join(f.known, ", ")))
		}
		return nil
	}
}

// object prints a Kubernetes object, or a list, that is not to be shown as text.
func (a *app) object(f format, object runtime.Object) error {
	var printer printers.ResourcePrinter
	switch f.value {
	case formatJSON:
		printer = &printers.JSONPrinter{}
	case formatYAML:
		printer = &printers.YAMLPrinter{}
	default:
		printer = &printers.NamePrinter{}
		if meta.IsListType(object) { // of which it prints the items only
			return meta.EachListItem(object, func(item runtime.Object) error { return printer.PrintObj(item, a.Streams.Out) })
		}
	}
	return (&printers.OmitManagedFieldsPrinter{Delegate: printer}).PrintObj(object, a.Streams.Out)
}

// document prints a JSON document of the viewer.
func (a *app) document(f format, raw []byte) error {
	var out []byte
	var err error
	if f.value == formatYAML {
		out, err = yaml.JSONToYAML(raw)
	} else {
		var indented bytes.Buffer
		err = json.Indent(&indented, raw, "", "  ")
		indented.WriteByte('\n')
		out = indented.Bytes()
	}
	if err != nil {
		return err
	}
	return a.print(string(out))
}

// list prints documents as one.
func (a *app) list(f format, items []json.RawMessage) error {
	if items == nil {
		items = []json.RawMessage{}
	}
	raw, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		return err
	}
	return a.document(f, raw)
}

// print writes a result.
func (a *app) print(text string) error {
	_, err := a.Streams.Out.Write([]byte(text))
	return err
}

// show writes a text that may hold what others wrote. Colours are made of what Clean takes away, so it is cleaned in parts where
// it is coloured; see term.Table and package show.
func (a *app) show(text string) error { return a.print(a.Streams.Shown(text)) }

// value prints a value as a document.
func (a *app) value(f format, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return a.document(f, raw)
}
