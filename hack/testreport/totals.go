package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// line is how a part stands in a file of totals.
func (c count) line(part string) string {
	return fmt.Sprintf("%s %d %d %d %d %d %.0f", part, c.passed, c.failed, c.skipped, c.packages, c.broken, c.seconds)
}

func parseLine(line string) (string, count, error) {
	var part string
	var c count
	_, err := fmt.Sscanf(line, "%s %d %d %d %d %d %g", &part, &c.passed, &c.failed, &c.skipped, &c.packages, &c.broken, &c.seconds)
	if err != nil {
		return "", count{}, fmt.Errorf("line of totals %q: %w", line, err)
	}
	return part, c, nil
}

// printTotals prints a table of all parts, then the sum alone on the last line.
func printTotals(w io.Writer, totals string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "part\tpackages\tpassed\tfailed\tskipped\tseconds\t")
	var all count
	for line := range strings.Lines(totals) {
		part, c, err := parseLine(line)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%.0f\t\n", part, c.packages, c.passed, c.failed, c.skipped, c.seconds)
		all.passed, all.failed, all.skipped = all.passed+c.passed, all.failed+c.failed, all.skipped+c.skipped
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, all.results())
	return err
}
