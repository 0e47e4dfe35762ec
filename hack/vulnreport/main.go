// Command vulnreport reads what "govulncheck -format json" prints and says what is to be done about it.
//
// Guarantees: it fails when a module has a known vulnerability that the file of explanations does not cover, or covers less
// far than our code reaches; when an explanation is about nothing that was found; and when the input has no end. What the
// standard library of the installed Go has is listed and does not fail: another Go mends it, no change of ours does.
//
//	govulncheck -format json ./cmd/... | vulnreport -allow FILE -data NAME
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	allow := flag.String("allow", "", "file of explanations: lines of an id, how far it may be reached (required, imported, called), and why")
	data := flag.String("data", "a database", "what was compared with; a pseudo-version in it tells its age")
	now := flag.String("now", time.Now().UTC().Format(time.DateOnly), "date from which the age of the data is told")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *allow, *data, *now); err != nil {
		fmt.Fprintln(os.Stderr, "vulnreport:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, allowFile, data, now string) error {
	allowed := map[string]explanation{}
	if allowFile != "" {
		raw, err := os.ReadFile(allowFile)
		if err != nil {
			return err
		}
		if allowed, err = parseAllowed(string(raw)); err != nil {
			return fmt.Errorf("%s: %w", allowFile, err)
		}
	}
	today, err := time.Parse(time.DateOnly, now)
	if err != nil {
		return fmt.Errorf("-now: %w", err)
	}
	scan, err := read(in)
	if err != nil {
		return fmt.Errorf("read the output of govulncheck: %w", err)
	}
	return scan.report(out, allowed, data, today)
}
