// Command testreport reads what "go test -json" prints and says what ran: one line per package, the whole output of
// tests that failed, and closing lines that count.
//
// Guarantees: it fails when a test or package failed, when a test was skipped, when nothing ran, and when the input ends
// in the middle of a package; output of a failed test is shown whole; every minute of silence it says what is running.
//
//	go test -json ./... | testreport -part unit [-totals FILE]
//	testreport -sum FILE
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

func main() {
	part := flag.String("part", "tests", "what the tests are, for the closing line")
	totals := flag.String("totals", "", "file to which this part's counts are added")
	sum := flag.String("sum", "", "print the table of a file of totals instead of reading tests")
	flag.Parse()
	if err := run(*part, *totals, *sum); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

func run(part, totals, sum string) error {
	if sum != "" {
		raw, err := os.ReadFile(sum)
		if err != nil {
			return err
		}
		return printTotals(os.Stdout, string(raw))
	}
	out := &lockedWriter{w: os.Stdout, last: time.Now()}
	r := newReport(out)
	stop := make(chan struct{})
	var reminding sync.WaitGroup
	reminding.Go(func() { remind(r, out, stop) })
	err := r.read(os.Stdin)
	close(stop)
	reminding.Wait()
	if err != nil {
		return err
	}
	count := r.close(part)
	if totals != "" {
		if err := appendTo(totals, count.line(part)); err != nil {
			return err
		}
	}
	return count.verdict()
}

func appendTo(path, line string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(file, line+"\n"); err != nil {
		_ = file.Close() // the write's error says more
		return err
	}
	return file.Close()
}

// silence is how long nothing is printed before testreport says what is running.
const silence = time.Minute

func remind(r *report, out *lockedWriter, stop <-chan struct{}) {
	ticker := time.NewTicker(silence / 4)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-ticker.C:
			if out.quietFor(now) >= silence {
				fmt.Fprintln(out, r.running(now))
			}
		}
	}
}

// lockedWriter is written to by the reader and by the reminder.
type lockedWriter struct {
	mu   sync.Mutex
	w    io.Writer
	last time.Time
}

// Write implements io.Writer.
func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Now()
	return l.w.Write(p)
}

func (l *lockedWriter) quietFor(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Sub(l.last)
}
