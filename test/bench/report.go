package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Report is what one run of the program found.
type Report struct {
	Date     string `json:"date"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	CPUs     int    `json:"cpus"`
	// LoadBefore and LoadAfter are the machine's load averages over one minute; absent where the system has none.
	LoadBefore string   `json:"loadBefore,omitempty"`
	LoadAfter  string   `json:"loadAfter,omitempty"`
	Figures    []Figure `json:"figures"`
}

// Figure is one measured number.
type Figure struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	// Value is the median of Samples.
	Value   float64   `json:"value"`
	Samples []float64 `json:"samples"`
	// AtLeast or AtMost is the target; figures without one explain others.
	AtLeast *float64 `json:"atLeast,omitempty"`
	AtMost  *float64 `json:"atMost,omitempty"`
	Met     *bool    `json:"met,omitempty"`
}

// figure makes a Figure without a target.
func figure(group, name, unit string, samples ...float64) Figure {
	return Figure{Group: group, Name: name, Unit: unit, Value: median(samples), Samples: samples}
}

func (f Figure) atLeast(target float64) Figure {
	met := f.Value >= target
	f.AtLeast, f.Met = &target, &met
	return f
}

func (f Figure) atMost(target float64) Figure {
	met := f.Value <= target
	f.AtMost, f.Met = &target, &met
	return f
}

// median returns the middle of the samples, or the mean of the two in the middle. There must be at least one.
func median(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

func (f Figure) target() string {
	switch {
	case f.AtLeast != nil:
		return "≥ " + number(*f.AtLeast)
	case f.AtMost != nil:
		return "≤ " + number(*f.AtMost)
	}
	return ""
}

func (f Figure) verdict() string {
	switch {
	case f.Met == nil:
		return ""
	case *f.Met:
		return "met"
	}
	return "MISSED"
}

// spread is the smallest and the largest sample.
func (f Figure) spread() string {
	if len(f.Samples) < 2 {
		return ""
	}
	return number(slices.Min(f.Samples)) + " – " + number(slices.Max(f.Samples))
}

// number writes a value with about three digits.
func number(v float64) string {
	digits := 2
	switch abs := math.Abs(v); {
	case abs >= 100 || v == math.Trunc(v):
		digits = 0
	case abs >= 10:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// print writes the table.
func (r Report) print(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "GROUP\tFIGURE\tMEDIAN\tUNIT\tTARGET\t\tSAMPLES")
	for _, f := range r.Figures {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Group, f.Name, number(f.Value), f.Unit, f.target(), f.verdict(), f.spread())
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s, commit %s, %s %s, %d CPUs, load average %s before and %s after\n",
		r.Date, r.Commit, r.Go, r.Platform, r.CPUs, r.LoadBefore, r.LoadAfter)
	return err
}

// missed names the figures that miss their target.
func (r Report) missed() []string {
	var out []string
	for _, f := range r.Figures {
		if f.Met != nil && !*f.Met {
			out = append(out, f.Group+" "+f.Name)
		}
	}
	return out
}

// loadAverage is the machine's load over the last minute, so that a figure from a busy machine shows itself as one.
func loadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(raw), " ")
	return first
}
