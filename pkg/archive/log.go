package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"

	hashicorp "github.com/hashicorp/golang-lru/v2"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/internal/lru"
	"github.com/agentloop/agentloop/pkg/runevent"
)

const (
	// keptSessions is for how many sessions it is remembered what their files have; keptBytes bounds the opened files that are
	// kept, in bytes of their entries.
	keptSessions = 1024
	keptBytes    = 16 << 20
)

// Log is a run-event log whose streams may have lost their beginning to archives. It reads both as one. Entries out of an
// archive have no position in the log. Safe for concurrent use.
type Log struct {
	runevent.Log
	files Files
}

// Files are archive files as they are read: checked, and remembered for a while. Safe for concurrent use.
type Files struct {
	archives   cas.Archives
	catalogues *hashicorp.Cache[cas.Scope, *catalogue]
	opened     *lru.Cache[fileKey, *File]
	log        *slog.Logger
}

type fileKey struct {
	scope cas.Scope
	name  string
}

// Over returns a log that reads what log does not have from archives. logger hears of files that are damaged; nil for
// nobody.
func Over(log runevent.Log, archives cas.Archives, logger *slog.Logger) (*Log, error) {
	catalogues, err := hashicorp.New[cas.Scope, *catalogue](keptSessions)
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Log{Log: log, files: Files{archives, catalogues, lru.New[fileKey, *File](keptBytes), logger}}, nil
}

// Read implements runevent.Log. Only where the log lacks entries, or lost them, are archives looked for.
func (l *Log) Read(ctx context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error {
	next := after + 1
	return l.Log.Read(ctx, stream, after, func(record runevent.Record) error {
		if record.Head.Sequence > next {
			if err := l.files.fill(ctx, stream, next, record.Head.Sequence-1, fn); err != nil {
				return err
			}
		}
		next = record.Head.Sequence + 1
		return fn(record)
	})
}

// errNotHere is returned where the log underneath cannot do what is asked for.
var errNotHere = errors.New("the log does not do that")

// Sweep reads streams together where the log can. What archives have it leaves out.
func (l *Log) Sweep(ctx context.Context, sweep runevent.Sweep, fn func(runevent.Record) error) error {
	inner, ok := l.Log.(interface {
		Sweep(ctx context.Context, sweep runevent.Sweep, fn func(runevent.Record) error) error
	})
	if !ok {
		return errNotHere
	}
	return inner.Sweep(ctx, sweep, fn)
}

// Records returns records by their positions where the log can. One out of an archive has none.
func (l *Log) Records(ctx context.Context, stream runevent.Stream, places []runevent.Head) ([]runevent.Record, error) {
	inner, ok := l.Log.(interface {
		Records(ctx context.Context, stream runevent.Stream, places []runevent.Head) ([]runevent.Record, error)
	})
	if !ok {
		return nil, errNotHere
	}
	for _, place := range places {
		if place.Position == 0 {
			return nil, errNotHere
		}
	}
	return inner.Records(ctx, stream, places)
}

// End returns the position of the last entry of the log underneath where that says it. Elsewhere none is known to be the last.
func (l *Log) End(ctx context.Context) (uint64, error) {
	inner, ok := l.Log.(interface {
		End(ctx context.Context) (uint64, error)
	})
	if !ok {
		return math.MaxUint64, nil
	}
	return inner.End(ctx)
}

// catalogue returns what the files of a session hold, as it was last seen.
func (f *Files) catalogue(scope cas.Scope) *catalogue {
	if c, ok := f.catalogues.Get(scope); ok {
		return c
	}
	c := newCatalogue()
	if before, ok, _ := f.catalogues.PeekOrAdd(scope, c); ok {
		return before
	}
	return c
}

// fill delivers the entries from first to last as far as archives have them.
func (f *Files) fill(ctx context.Context, stream runevent.Stream, first, last int64, fn func(runevent.Record) error) error {
	scope := cas.Scope{Namespace: stream.Namespace, Session: stream.Session}
	c := f.catalogue(scope)
	places := c.between(stream, first, last)
	if missing(places, first, last) {
		if err := c.refresh(ctx, f.archives, scope, f.open); err != nil {
			return fmt.Errorf("read %s from its archive: %w", stream, err)
		}
		for name, err := range c.problems() {
			f.log.Warn("archive file cannot be used", "namespace", scope.Namespace, "session", scope.Session, "file", name, "error", err)
		}
		places = c.between(stream, first, last)
	}
	for _, p := range places {
		if p.Last < first {
			continue // another file had it
		}
		file, err := f.open(ctx, scope, p.file)
		switch {
		case err != nil && unusable(err):
			f.log.Warn("archive file cannot be used", "namespace", scope.Namespace, "session", scope.Session, "file", p.file, "error", err)
			continue
		case err != nil:
			return fmt.Errorf("read %s from its archive: %w", stream, err)
		}
		for _, record := range file.Records[p.number] {
			if record.Head.Sequence < first || record.Head.Sequence > last {
				continue
			}
			first = record.Head.Sequence + 1
			if err := fn(clone(record)); err != nil {
				return err
			}
		}
	}
	return nil
}

// clone gives a record bytes of its own: what a log delivers belongs to the caller.
func clone(record runevent.Record) runevent.Record {
	record.Raw = append([]byte(nil), record.Raw...)
	return record
}

// missing says whether some of the entries from first to last are in none of the places.
func missing(places []place, first, last int64) bool {
	for _, p := range places {
		if p.First <= first {
			first = max(first, p.Last+1)
		}
	}
	return first <= last
}

// open reads a file, or has read it.
func (f *Files) open(ctx context.Context, scope cas.Scope, name string) (*File, error) {
	key := fileKey{scope, name}
	if file, ok := f.opened.Get(key); ok {
		return file, nil
	}
	file, err := read(ctx, f.archives, scope, name)
	if err == nil {
		f.opened.Add(key, file, int64(file.bytes))
	}
	return file, err
}

// read reads a file from the store.
func read(ctx context.Context, archives cas.Archives, scope cas.Scope, name string) (*File, error) {
	data, err := archives.GetArchive(ctx, scope, name)
	if err != nil {
		return nil, err
	}
	file, err := Decode(scope, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !strings.HasPrefix(name, file.Run+".") {
		return nil, fmt.Errorf("%s: %w: it holds run %s", name, ErrDamaged, file.Run)
	}
	return file, nil
}
