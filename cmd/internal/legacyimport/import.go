package legacyimport

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/legacy"
)

// importer is one import.
type importer struct {
	Store  cas.Store
	Scope  cas.Scope
	Folder fs.FS
	// Accept takes damaged lines and files of no known kind; DryRun stores nothing. Progress gets what is found.
	Accept, DryRun bool
	Progress       io.Writer

	files    []*file
	payloads map[cas.Digest]*file
	problems int
}

// file is one file of the folder.
type file struct {
	legacy.File
	records, unknown int
}

const (
	// maxFiles bounds the files of one list, so that it is one object.
	maxFiles = 10000
	// maxProblems is how many problems are said one by one.
	maxProblems = 100
)

func (i *importer) run(ctx context.Context) (string, error) {
	if err := i.find(); err != nil {
		return "", err
	}
	for _, f := range i.files {
		if err := i.check(ctx, f); err != nil {
			return "", fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	if err := i.compare(ctx); err != nil {
		return "", err
	}
	if i.problems > maxProblems {
		i.say("… and %d more problems", i.problems-maxProblems)
	}
	if i.problems > 0 && !i.Accept {
		return "", fmt.Errorf("%d problems, nothing was stored: mend the files, or store them as they are with --accept-damaged", i.problems)
	}
	if i.DryRun {
		return i.summary("would be stored"), nil
	}
	return i.put(ctx)
}

func (i *importer) say(format string, args ...any) {
	_, _ = fmt.Fprintf(i.Progress, format+"\n", args...) // progress that nobody reads is no failure
}

func (i *importer) problem(at, format string, args ...any) {
	if i.problems++; i.problems <= maxProblems {
		i.say(at+": "+format, args...)
	}
}

// find lists the folder's files.
func (i *importer) find() error {
	i.payloads = map[cas.Digest]*file{}
	err := fs.WalkDir(i.Folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is no regular file: nothing was stored", name)
		}
		if !legacy.ValidPath(name) {
			return fmt.Errorf("%q is no name that can be stored: nothing was stored", name)
		}
		f := &file{File: legacy.File{Path: name, Kind: legacy.KindOf(name)}}
		if f.Kind == legacy.KindOther {
			i.problem(name, "is neither a journal, nor segments, nor a payload by its place")
		}
		i.files = append(i.files, f)
		return nil
	})
	if err != nil {
		return err
	}
	if len(i.files) == 0 {
		return errors.New("the folder has no files")
	}
	// Payloads come first: lines of journals refer to them.
	slices.SortStableFunc(i.files, func(a, b *file) int {
		switch {
		case a.Kind == legacy.KindPayload && b.Kind != legacy.KindPayload:
			return -1
		case a.Kind != legacy.KindPayload && b.Kind == legacy.KindPayload:
			return 1
		}
		return strings.Compare(a.Path, b.Path)
	})
	return nil
}

// check reads a file once, for its digest and for what is wrong with its lines.
func (i *importer) check(ctx context.Context, f *file) error {
	reader, err := i.Folder.Open(f.Path)
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }() // only read
	sum := sha256.New()
	lines := &legacy.Lines{Whole: legacy.IsWhole(f.Path), Each: func(line legacy.Line) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return i.line(f, line)
	}}
	out := io.Writer(sum)
	if f.Kind != legacy.KindOther {
		out = io.MultiWriter(sum, lines)
	}
	if f.Size, err = io.Copy(out, reader); err != nil {
		return err
	}
	if err := lines.Close(); err != nil {
		return err
	}
	f.SHA256 = digestOf(sum)
	if f.Kind == legacy.KindPayload {
		i.payloads[f.SHA256] = f
	}
	i.say("%s: %s, %d bytes, %d records%s", f.Path, f.Kind, f.Size, f.records, unknownOf(f))
	return nil
}

func digestOf(sum hash.Hash) cas.Digest {
	var digest [sha256.Size]byte
	copy(digest[:], sum.Sum(nil))
	return cas.FromSum(digest)
}

func unknownOf(f *file) string {
	if f.unknown == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of them of a kind that is not known (they are kept and listed)", f.unknown)
}

func (i *importer) line(f *file, line legacy.Line) error {
	at := fmt.Sprintf("%s:%d", f.Path, line.Number)
	if line.TooLong() {
		i.problem(at, "the line has %d bytes, at most %d are read", line.Length, legacy.MaxLine)
		return nil
	}
	record, err := legacy.Parse(f.Kind, line.Raw, nil)
	if err == nil && !record.Payload.IsZero() {
		payload, readErr := i.payload(record.Payload)
		switch {
		case readErr != nil:
			return readErr
		case payload == nil:
			i.problem(at, "the payload %s is not in the folder", record.Payload)
			f.records++
			return nil
		}
		_, err = legacy.Parse(f.Kind, line.Raw, payload)
	}
	switch {
	case errors.Is(err, legacy.ErrUnknown):
		f.unknown++
	case err != nil && line.Open:
		i.problem(at, "the last line is incomplete: %v", err)
		return nil
	case err != nil:
		i.problem(at, "%v", err)
		return nil
	}
	f.records++
	return nil
}

// payload reads a payload file; nil when there is none of that digest.
func (i *importer) payload(digest cas.Digest) ([]byte, error) {
	f := i.payloads[digest]
	if f == nil || f.Size > legacy.MaxLine {
		return nil, nil
	}
	return fs.ReadFile(i.Folder, f.Path)
}

// compare looks at what was imported before. A file may be there already, or have grown; one that has changed is a
// problem.
func (i *importer) compare(ctx context.Context) error {
	earlier := map[string][]legacy.File{}
	err := i.Store.List(ctx, i.Scope.In(cas.TreeManifests), func(ref cas.Ref) error {
		raw, err := i.Store.Get(ctx, i.Scope.In(cas.TreeManifests), cas.Ref{Digest: ref.Digest})
		if err != nil {
			return err
		}
		manifest, err := legacy.DecodeManifest(raw)
		for _, f := range manifest.Files {
			earlier[f.Path] = append(earlier[f.Path], f)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read what was imported before: %w", err)
	}
	for _, f := range i.files {
		for _, before := range earlier[f.Path] {
			same, err := i.begins(f, before)
			if err != nil {
				return err
			}
			if !same {
				i.problem(f.Path, "was imported before with other bytes, of which it is no continuation")
			}
		}
	}
	return nil
}

// begins says whether a file begins with what was imported of it before.
func (i *importer) begins(f *file, before legacy.File) (bool, error) {
	if f.SHA256 == before.SHA256 || f.Size < before.Size {
		return f.SHA256 == before.SHA256, nil
	}
	reader, err := i.Folder.Open(f.Path)
	if err != nil {
		return false, err
	}
	defer func() { _ = reader.Close() }() // only read
	sum := sha256.New()
	if _, err := io.CopyN(sum, reader, before.Size); err != nil {
		return false, fmt.Errorf("%s: %w", f.Path, err)
	}
	return digestOf(sum) == before.SHA256, nil
}

// put stores the files, and their lists after them.
func (i *importer) put(ctx context.Context) (string, error) {
	for _, f := range i.files {
		if err := i.putFile(ctx, f); err != nil {
			return "", fmt.Errorf("store %s: %w", f.Path, err)
		}
	}
	slices.SortFunc(i.files, func(a, b *file) int { return strings.Compare(a.Path, b.Path) })
	fresh := false
	for chunk := range slices.Chunk(i.files, maxFiles) {
		var manifest legacy.Manifest
		for _, f := range chunk {
			manifest.Files = append(manifest.Files, f.File)
		}
		raw, err := manifest.Encode()
		if err != nil {
			return "", err
		}
		scope := i.Scope.In(cas.TreeManifests)
		stored, err := i.Store.Get(ctx, scope, cas.Ref{Digest: cas.Of(raw), Size: int64(len(raw))})
		if err == nil && bytes.Equal(stored, raw) {
			continue
		}
		if err != nil && !cas.IsFinal(err) {
			return "", fmt.Errorf("store the list of files: %w", err)
		}
		if _, err := i.Store.Put(ctx, scope, cas.MediaImport, raw); err != nil {
			return "", fmt.Errorf("store the list of files: %w", err)
		}
		fresh = true
	}
	if !fresh {
		return i.summary("were imported before, nothing changed"), nil
	}
	return i.summary("stored"), nil
}

func (i *importer) putFile(ctx context.Context, f *file) error {
	reader, err := i.Folder.Open(f.Path)
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }() // only read
	sum := sha256.New()
	f.Body, err = cas.PutBodyFrom(ctx, cas.Into(i.Store, i.Scope.In(cas.TreeFiles)), cas.MediaBlob, io.TeeReader(reader, sum), f.Size)
	if errors.Is(err, cas.ErrInvalid) || err == nil && digestOf(sum) != f.SHA256 {
		return errors.New("the file changed while it was read: import the folder again when nobody writes to it")
	}
	return err
}

func (i *importer) summary(what string) string {
	var records, unknown int
	var size int64
	for _, f := range i.files {
		records, unknown, size = records+f.records, unknown+f.unknown, size+f.Size
	}
	text := fmt.Sprintf("%d files with %d records and %d bytes %s", len(i.files), records, size, what)
	if unknown > 0 {
		text += fmt.Sprintf("; %d records are of a kind that is not known", unknown)
	}
	if i.problems > 0 {
		text += fmt.Sprintf("; %d problems were accepted", i.problems)
	}
	return text
}
