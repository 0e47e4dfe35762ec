package trajectory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/legacy"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// Imported looks whether files were imported, or are gone, since the builder first read them. It returns ErrRewritten
// when that is so: a new builder must be filled. Any other error is the store's.
func (r *Reader) Imported(ctx context.Context, b *Builder) error {
	if b.imports == nil {
		return nil
	}
	digests, err := r.manifests(ctx, b.scope)
	if err != nil {
		return err
	}
	if setOf(digests) != b.imports.set {
		return ErrRewritten
	}
	return nil
}

// manifests lists the session's imports.
func (r *Reader) manifests(ctx context.Context, scope cas.Scope) ([]cas.Digest, error) {
	var digests []cas.Digest
	err := r.store.List(ctx, scope.In(cas.TreeManifests), func(ref cas.Ref) error {
		digests = append(digests, ref.Digest)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list imported files: %w", err)
	}
	slices.SortFunc(digests, func(a, b cas.Digest) int { return strings.Compare(a.Hex(), b.Hex()) })
	return digests, nil
}

func setOf(manifests []cas.Digest) string {
	if len(manifests) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, digest := range manifests {
		_, _ = sum.Write([]byte(digest.Hex())) // never fails
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// readImports folds what was imported into an empty builder. When it fails the builder is empty again.
func (r *Reader) readImports(ctx context.Context, b *Builder) error {
	digests, err := r.manifests(ctx, b.scope)
	if err != nil {
		return err
	}
	b.imports = &imports{set: setOf(digests), payloads: map[cas.Digest]*legacyFile{}, prefixes: map[*legacyFile]bool{}, matching: newMatching()}
	var files []legacy.File
	for _, digest := range digests {
		part, err := r.manifest(ctx, b, digest)
		if err != nil {
			*b = *b.Successor()
			return err
		}
		files = append(files, part...)
	}
	b.imports.add(files)
	for _, file := range b.imports.files {
		if err := r.readFile(ctx, b, file); err != nil {
			*b = *b.Successor()
			return fmt.Errorf("read an imported file: %w", err)
		}
	}
	return nil
}

func (r *Reader) manifest(ctx context.Context, b *Builder, digest cas.Digest) ([]legacy.File, error) {
	raw, _, err := cas.GetBody(ctx, r.store, b.scope.In(cas.TreeManifests), cas.Ref{Digest: digest}, maxObject)
	if notice := objectNotice(digest, err); notice != nil {
		notice.Message = "A list of imported files is missing or damaged: the files that it names are not shown."
		b.notice(*notice)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a list of imported files: %w", err)
	}
	manifest, err := legacy.DecodeManifest(raw)
	if err != nil {
		b.notice(Notice{Code: CodeNewObject, Digest: digest, Message: "A list of imported files has a format that this program does not know."})
		return nil, nil //nolint:nilerr // the notice says it
	}
	return manifest.Files, nil
}

// add takes the files of all imports: each content of a path once, a path's longest content first.
func (im *imports) add(files []legacy.File) {
	slices.SortStableFunc(files, func(a, b legacy.File) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), -cmp.Compare(a.Size, b.Size), strings.Compare(a.SHA256.Hex(), b.SHA256.Hex()))
	})
	files = slices.CompactFunc(files, func(a, b legacy.File) bool { return a.Path == b.Path && a.SHA256 == b.SHA256 })
	for i, file := range files {
		named := file.Path
		if i > 0 && files[i-1].Path == file.Path {
			named += "\n" + file.SHA256.Hex()
		}
		f := &legacyFile{File: file, key: cas.Of([]byte(named)).Hex()[:16]}
		im.files = append(im.files, f)
		if file.Kind == legacy.KindPayload {
			im.payloads[file.SHA256] = f
		}
	}
}

// readFile folds the lines of one file. A content that is the beginning of another of the same path is left out: the
// file had grown when it was imported again.
func (r *Reader) readFile(ctx context.Context, b *Builder, file *legacyFile) error {
	if file.Kind != legacy.KindJournal && file.Kind != legacy.KindSegments {
		return nil
	}
	if b.imports.prefixes[file] {
		return nil
	}
	w := newWindow(r.log)
	in := &importing{b: b, file: file}
	lines := &legacy.Lines{Whole: legacy.IsWhole(file.Path), Each: func(line legacy.Line) error {
		payload, err := r.payload(ctx, b, w, line.Raw)
		if err == nil {
			in.line(line, payload)
		}
		return err
	}}
	watch := &prefixWatch{sum: sha256.New(), others: b.imports.others(file)}
	_, err := cas.CopyBody(ctx, writers{watch, lines}, r.store, cas.BodyRequest{Scope: b.scope.In(cas.TreeFiles), Ref: file.Body, Limit: file.Size})
	if err == nil {
		err = lines.Close()
	}
	for _, other := range watch.found {
		b.imports.prefixes[other] = true
	}
	for _, other := range watch.others {
		in.note(Notice{Code: CodeMismatch, Digest: other.SHA256, Message: "The file was imported with two contents, of which neither is the beginning of the other. Both are shown."})
	}
	in.end()
	if notice := objectNotice(file.Body.Digest, err); notice != nil {
		notice.Message = "An imported file is missing or damaged: what stands behind that place is not shown."
		in.note(*notice)
		return nil
	}
	return err
}

// writers writes to each in turn.
type writers []interface {
	Write(p []byte) (int, error)
}

func (w writers) Write(p []byte) (int, error) {
	for _, one := range w {
		if _, err := one.Write(p); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// others are the other, shorter contents of a file's path, the shortest first.
func (im *imports) others(file *legacyFile) []*legacyFile {
	var out []*legacyFile
	for _, other := range im.files {
		if other != file && other.Path == file.Path && !im.prefixes[other] && other.Size <= file.Size && slices.Index(im.files, other) > slices.Index(im.files, file) {
			out = append(out, other)
		}
	}
	slices.Reverse(out)
	return out
}

// prefixWatch compares the beginnings of what is written with other contents.
type prefixWatch struct {
	sum     hash.Hash
	written int64
	others  []*legacyFile
	found   []*legacyFile
}

func (w *prefixWatch) Write(p []byte) (int, error) {
	length := len(p)
	var left []*legacyFile
	for _, other := range w.others {
		if w.written+int64(len(p)) < other.Size || other.Size < w.written {
			left = append(left, other)
			continue
		}
		n := other.Size - w.written
		_, _ = w.sum.Write(p[:n]) // never fails
		p, w.written = p[n:], other.Size
		if hex.EncodeToString(w.sum.Sum(nil)) == other.SHA256.Hex() {
			w.found = append(w.found, other)
			continue
		}
		left = append(left, other)
	}
	w.others = left
	_, _ = w.sum.Write(p) // as above
	w.written += int64(len(p))
	return length, nil
}

// payload reads what a journal line refers to; nil when it refers to nothing that is there.
func (r *Reader) payload(ctx context.Context, b *Builder, w *window, raw []byte) ([]byte, error) {
	record, err := legacy.Journal(raw, nil)
	if err != nil || record.Payload.IsZero() {
		return nil, nil //nolint:nilerr // the line is parsed once more where that matters
	}
	file := b.imports.payloads[record.Payload]
	if file == nil {
		return nil, nil
	}
	return r.span(ctx, w, b.scope, file, cas.Range{Length: file.Size})
}

// keptObject is an object of an imported file.
type keptObject struct {
	digest cas.Digest
	data   []byte
}

// keptObjects bounds the objects that a window keeps, of at most cas.MaxObject bytes each.
const keptObjects = 4

// object reads an object of an imported file, or returns it from the window.
func (w *window) object(ref cas.Ref, read func() ([]byte, error)) ([]byte, error) {
	w.reading.Lock()
	defer w.reading.Unlock()
	if at := slices.IndexFunc(w.objects, func(o keptObject) bool { return o.digest == ref.Digest }); at >= 0 {
		o := w.objects[at]
		w.objects = append(slices.Delete(w.objects, at, at+1), o)
		return o.data, nil
	}
	data, err := read()
	if err != nil {
		return nil, err
	}
	if len(w.objects) == keptObjects {
		w.objects = slices.Delete(w.objects, 0, 1)
	}
	w.objects = append(w.objects, keptObject{ref.Digest, data})
	return data, nil
}

// span reads a part of an imported file; nil when it is missing or damaged.
func (r *Reader) span(ctx context.Context, w *window, scope cas.Scope, file *legacyFile, span cas.Range) ([]byte, error) {
	raw, err := cas.ReadRange(file.Body, span, func(ref cas.Ref) ([]byte, error) {
		return w.object(ref, func() ([]byte, error) { return r.store.Get(ctx, scope.In(cas.TreeFiles), ref) })
	})
	if objectNotice(file.Body.Digest, err) != nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read an imported file: %w", err)
	}
	return raw, nil
}

// readImported reads an imported entry's records once more.
func (d *detail) readImported(ctx context.Context) error {
	n := d.node
	for i, span := range n.spans {
		raw, err := d.reader.span(ctx, d.window, d.index.Scope, n.file, span)
		if err != nil {
			return err
		}
		if raw == nil || !json.Valid(raw) {
			d.note(Notice{Code: CodeCorrupt, Digest: n.file.Body.Digest, From: n.records[i].sequence, To: n.records[i].sequence, Message: "The imported file is missing or damaged at this place."})
			continue
		}
		d.Events = append(d.Events, RunEvent{Stream: n.file.Path, Sequence: n.records[i].sequence, Event: raw})
		payload, err := d.payload(ctx, raw)
		if err != nil {
			return err
		}
		record, err := legacy.Parse(n.file.Kind, raw, payload)
		if err != nil || !record.Payload.IsZero() || n.part >= len(record.Items) {
			continue // listed as unknown: its JSON is all there is
		}
		item := record.Items[n.part]
		d.items = append(d.items, item)
		d.events = append(d.events, runevent.Entry{Sequence: n.records[i].sequence, Event: item.Event})
	}
	return nil
}

func (d *detail) payload(ctx context.Context, raw []byte) ([]byte, error) {
	record, err := legacy.Journal(raw, nil)
	if err != nil || record.Payload.IsZero() {
		return nil, nil //nolint:nilerr // as above
	}
	file := d.index.payloads[record.Payload]
	if file == nil {
		return nil, nil
	}
	return d.reader.span(ctx, d.window, d.index.Scope, file, cas.Range{Length: file.Size})
}

// importedOutput fills in a response of the old form.
func (d *detail) importedOutput(event *runevent.Event) {
	if len(d.items) == 0 {
		return
	}
	d.Output = &ModelOutput{Message: d.items[0].Message, Usage: event.Usage, StopReason: event.StopReason, ResponseID: event.Evidence.ResponseID}
}

// supplement adds what is known of a call's parameters from imported files.
func (d *detail) supplement(ctx context.Context) error {
	for _, item := range d.items {
		if item.Summary != "" {
			d.Tool.ParameterSummary = item.Summary
		}
	}
	source := d.node.supplement
	if source == nil || d.Tool.Parameters != nil {
		return nil
	}
	other := &detail{reader: d.reader, index: d.index, node: source, window: d.window}
	if err := other.readImported(ctx); err != nil {
		return err
	}
	for _, notice := range other.Notices {
		d.note(notice)
	}
	if len(other.items) > 0 && other.items[0].Event.Arguments != nil {
		d.Tool.Parameters = other.items[0].Event.Arguments
		d.Tool.Supplemented = &Supplement{File: source.file.Path, Line: source.Sequence, EntryID: source.ID}
	}
	return nil
}
