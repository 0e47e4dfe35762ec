// Command chartdoc writes a chart's README: its description, and a table of its values with their defaults and what the
// comments in values.yaml say about them.
//
//	chartdoc FOLDER
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chartdoc FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "chartdoc:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	values, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	if err != nil {
		return err
	}
	chart, err := os.ReadFile(filepath.Join(folder, "Chart.yaml"))
	if err != nil {
		return err
	}
	rows, err := describe(values)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	var out bytes.Buffer
	if err := write(&out, chart, rows); err != nil {
		return err
	}
	_, err = os.Stdout.Write(out.Bytes())
	return err
}
