package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// Version is the format version that files are written in, and the only one that is read.
const Version = 1

// ErrDamaged is returned when bytes are no archive file, or not all of one.
var ErrDamaged = errors.New("damaged archive file")

// ErrNewer is returned for a file of a later version.
var ErrNewer = errors.New("archive file of a later version")

const (
	// maxEntries is how many bytes of entries a file has before another one is begun, maxStretches how many stretches. A file
	// is made and read in memory.
	maxEntries   = 4 << 20
	maxStretches = 1000
	// maxPlain bounds a decompressed file: entries up to the limit and one more, and its first and last line.
	maxPlain = maxEntries + runevent.MaxEntry + maxStretches*1024 + 4096
)

// Stretch is a part of one stream without gaps.
type Stretch struct {
	Class runevent.Class `json:"class"`
	Key   string         `json:"key"`
	// First and Last are sequences.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Before is the digest of the entry before First, zero at the beginning of a stream; Digest is that of Last.
	Before cas.Digest `json:"before,omitzero"`
	Digest cas.Digest `json:"digest"`
}

// header is the first line of a file.
type header struct {
	V         int       `json:"v"`
	Type      string    `json:"type"`
	Namespace string    `json:"namespace"`
	Session   string    `json:"session"`
	Run       string    `json:"run"`
	Streams   []Stretch `json:"streams"`
}

// footer is its last one.
type footer struct {
	Type    string `json:"type"`
	Entries int    `json:"entries"`
	// SHA256 is of all bytes before this line.
	SHA256 cas.Digest `json:"sha256"`
}

const (
	typeArchive  = "archive"
	typeComplete = "complete"
)

// File is what an archive file holds.
type File struct {
	Scope cas.Scope
	// Run is the UID of the AgentRun.
	Run string
	// Stretches are the streams' parts; Records are their entries in the same order.
	Stretches []Stretch
	Records   [][]runevent.Record
	// bytes is the size of all entries.
	bytes int
}

// streamOf is the stream that a stretch is of.
func (f *File) streamOf(s Stretch) runevent.Stream {
	return runevent.Stream{Class: s.Class, Namespace: f.Scope.Namespace, Session: f.Scope.Session, Key: s.Key}
}

// add puts an entry behind the others of its stream, or begins a stretch. before is the end of the stream up to it.
func (f *File) add(before runevent.Head, record runevent.Record) {
	last := len(f.Stretches) - 1
	if last < 0 || f.streamOf(f.Stretches[last]) != record.Stream || f.Stretches[last].Last+1 != record.Head.Sequence {
		f.Stretches = append(f.Stretches, Stretch{Class: record.Stream.Class, Key: record.Stream.Key, First: record.Head.Sequence, Before: before.Digest})
		f.Records = append(f.Records, nil)
		last++
	}
	f.Stretches[last].Last, f.Stretches[last].Digest = record.Head.Sequence, record.Head.Digest
	f.Records[last] = append(f.Records[last], record)
	f.bytes += len(record.Raw)
}

// Encode returns the bytes of a file.
func Encode(f *File) ([]byte, error) {
	first, err := json.Marshal(header{
		V: Version, Type: typeArchive, Namespace: f.Scope.Namespace, Session: f.Scope.Session, Run: f.Run, Streams: f.Stretches,
	})
	if err != nil {
		return nil, fmt.Errorf("encode archive: %w", err)
	}
	plain := bytes.NewBuffer(make([]byte, 0, len(first)+f.bytes+4096))
	plain.Write(append(first, '\n'))
	entries := 0
	for _, records := range f.Records {
		for _, record := range records {
			if bytes.IndexByte(record.Raw, '\n') >= 0 {
				return nil, fmt.Errorf("encode archive: %w: entry %d of %s has a line break", runevent.ErrDamaged, record.Head.Sequence, record.Stream)
			}
			plain.Write(record.Raw)
			plain.WriteByte('\n')
			entries++
		}
	}
	last, err := json.Marshal(footer{Type: typeComplete, Entries: entries, SHA256: cas.Of(plain.Bytes())})
	if err != nil {
		return nil, fmt.Errorf("encode archive: %w", err)
	}
	plain.Write(append(last, '\n'))
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return nil, fmt.Errorf("encode archive: %w", err)
	}
	data := encoder.EncodeAll(plain.Bytes(), make([]byte, 0, plain.Len()/4))
	return data, errors.Join(encoder.Close(), cas.CheckArchive(data))
}

// Decode takes a file apart and checks all of it: that it is complete, that its entries follow each other, and that they are
// those that its first line says. Entries of a later format are taken as they are.
func Decode(scope cas.Scope, data []byte) (*File, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPlain), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("decode archive: %w", err)
	}
	defer decoder.Close()
	plain, err := decoder.DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	lines, err := split(plain)
	if err != nil {
		return nil, err
	}
	return parse(scope, lines)
}

// maxWindow bounds what a file may ask a decoder to keep; it is a power of two above maxPlain.
const maxWindow = 8 << 20

// split cuts a file into its lines and checks the last one, which it leaves out.
func split(plain []byte) ([][]byte, error) {
	if len(plain) == 0 || plain[len(plain)-1] != '\n' {
		return nil, fmt.Errorf("%w: its end is missing", ErrDamaged)
	}
	lines := bytes.Split(plain[:len(plain)-1], []byte("\n"))
	last := lines[len(lines)-1]
	var end footer
	if json.Unmarshal(last, &end) != nil || end.Type != typeComplete {
		return nil, fmt.Errorf("%w: its last line is missing", ErrDamaged)
	}
	if before := plain[:len(plain)-1-len(last)]; cas.Of(before) != end.SHA256 || end.Entries != len(lines)-2 {
		return nil, fmt.Errorf("%w: its lines are not those that its last one says", ErrDamaged)
	}
	return lines[:len(lines)-1], nil
}

func parse(scope cas.Scope, lines [][]byte) (*File, error) {
	var head header
	if err := json.Unmarshal(lines[0], &head); err != nil || head.Type != typeArchive {
		return nil, fmt.Errorf("%w: its first line is none of an archive", ErrDamaged)
	}
	switch {
	case head.V > Version:
		return nil, fmt.Errorf("%w: %d", ErrNewer, head.V)
	case head.V != Version:
		return nil, fmt.Errorf("%w: version %d", ErrDamaged, head.V)
	case head.Namespace != scope.Namespace || head.Session != scope.Session:
		return nil, fmt.Errorf("%w: it belongs to session %s/%s", ErrDamaged, head.Namespace, head.Session)
	}
	f := &File{Scope: scope, Run: head.Run, Stretches: head.Streams}
	rest := lines[1:]
	for _, stretch := range head.Streams {
		count := stretch.Last - stretch.First + 1
		if stretch.First < 1 || count < 1 || count > int64(len(rest)) {
			return nil, fmt.Errorf("%w: it says that it has entries %d to %d of %s", ErrDamaged, stretch.First, stretch.Last, stretch.Key)
		}
		records, err := f.records(stretch, rest[:count])
		if err != nil {
			return nil, err
		}
		f.Records = append(f.Records, records)
		rest = rest[count:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%w: %d entries belong to no stream", ErrDamaged, len(rest))
	}
	return f, nil
}

// records checks the entries of one stretch.
func (f *File) records(stretch Stretch, lines [][]byte) ([]runevent.Record, error) {
	stream := f.streamOf(stretch)
	if err := stream.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	before := runevent.Head{Sequence: stretch.First - 1, Digest: stretch.Before}
	records := make([]runevent.Record, len(lines))
	for i, raw := range lines {
		raw = bytes.Clone(raw)
		records[i] = runevent.Record{Stream: stream, Head: runevent.HeadOf(before.Sequence+1, 0, raw), Raw: raw}
		if err := runevent.Verify(before, records[i]); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, stream, err)
		}
		before = records[i].Head
		f.bytes += len(raw)
	}
	if before.Digest != stretch.Digest {
		return nil, fmt.Errorf("%w: %s does not end as its first line says", ErrDamaged, stream)
	}
	return records, nil
}
