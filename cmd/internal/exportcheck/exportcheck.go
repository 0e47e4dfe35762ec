// Package exportcheck checks the export of a trajectory as it lies on a disk, compressed or not, and says what was found.
//
// Guarantees: a file that was cut off or damaged in its compression is reported like one that was cut off; only a source that cannot
// be read is an error.
package exportcheck

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/agentloop/agentloop/pkg/trajectory/verify"
)

// Stream checks what comes out of a stream that may be compressed. A stream whose compression is cut off or damaged is an
// export that was cut off or damaged.
func Stream(from io.Reader, progress func(int64)) (verify.Report, error) {
	source := &remembering{from: from}
	plain, closeStream, err := decompressed(bufio.NewReaderSize(source, 256<<10))
	if err == nil {
		defer closeStream()
		var report verify.Report
		report, err = verify.Export(plain, progress)
		if err == nil {
			return report, nil
		}
		if source.err == nil {
			report.Complete = false
			report.Problems = append(report.Problems, verify.Problem{
				Line: report.Lines, Code: verify.CodeCut, Message: "The compressed file is cut off or damaged: " + err.Error() + ".",
				Advice: "Download it again.",
			})
			return report, nil
		}
	}
	return verify.Report{}, err
}

// remembering keeps why its source could not be read.
type remembering struct {
	from io.Reader
	err  error
}

func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// decompressed looks at the first bytes and takes the compression off.
func decompressed(from *bufio.Reader) (plain io.Reader, closeStream func(), err error) {
	magic, err := from.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		stream, err := gzip.NewReader(from)
		if err != nil {
			return nil, nil, err
		}
		return stream, func() { _ = stream.Close() }, nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		stream, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(64<<20))
		if err != nil {
			return nil, nil, err
		}
		return stream, stream.Close, nil
	}
	return from, func() {}, nil
}

// Print says what was found, for people or for programs.
func Print(out io.Writer, report verify.Report, format string) error {
	if format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	var text bytes.Buffer
	if report.Complete {
		fmt.Fprintf(&text, "complete: session %s, %d entries, %d bytes\nsha256 of everything before the last line: %s\n",
			report.Session, report.Entries, report.Bytes, report.SHA256)
	} else {
		fmt.Fprintf(&text, "NOT COMPLETE: session %s, %d of %d entries, %d bytes\n", report.Session, report.Entries, report.Indexed, report.Bytes)
	}
	for _, p := range report.Problems {
		where := "file"
		if p.Line > 0 {
			where = fmt.Sprintf("line %d", p.Line)
		}
		fmt.Fprintf(&text, "%s: %s (%s)\n  %s\n", where, p.Message, p.Code, p.Advice)
	}
	if report.MoreProblems > 0 {
		fmt.Fprintf(&text, "and %d more\n", report.MoreProblems)
	}
	_, err := out.Write(text.Bytes())
	return err
}
