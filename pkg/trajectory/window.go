package trajectory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/agentloop/agentloop/pkg/runevent"
)

const (
	// chunkLength is how many records of a stream are read together, windowChunks how many such chunks are kept, and
	// windowBytes how many bytes they may have.
	chunkLength  = runevent.Stride
	windowChunks = 32
	windowBytes  = 8 << 20
)

// window reads records by their places. It keeps what was read last, so that reading the entries of a session in order
// reads its log once. Safe for concurrent use; who waits for a read waits for those before it.
type window struct {
	log Log
	mu  sync.Mutex
	// forward reads the log itself, when all of it is wanted; nil otherwise.
	forward *forward
	// chunks are parts of single streams.
	chunks map[chunkKey][]runevent.Record
	used   []chunkKey // least recently used first
	// singles are records that were read alone.
	singles map[runevent.Stream][]runevent.Record
	bytes   int
	// objects are those of imported files that were read last, the newest last. One is read at a time.
	reading sync.Mutex
	objects []keptObject
}

type chunkKey struct {
	stream runevent.Stream
	number int64
}

func newWindow(log Log) *window { return &window{log: log, chunks: map[chunkKey][]runevent.Record{}} }

// whole returns a window for reading all entries of an index in order. It must be closed.
func (r *Reader) whole(ix *Index) *window {
	w := newWindow(r.log)
	w.forward = newForward(r.log, ix)
	return w
}

// close ends what the window still reads.
func (w *window) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forward.close()
	w.forward = nil
}

// Placed is what a log may be besides. Records returns a stream's records whose sequences and positions are given, in that
// order; in the place of one that does not stand there, or that the log cannot find now, a zero Record.
type Placed interface {
	Records(ctx context.Context, stream runevent.Stream, places []runevent.Head) ([]runevent.Record, error)
}

// maxSingles is how many records of a stream are read alone; more are read as chunks.
const maxSingles = 32

// single reads the few records of nodes alone, where the log can: a chunk is hundreds of records. What is not read now is
// read when it is wanted. Nodes may be nil.
func (w *window) single(ctx context.Context, nodes ...*node) {
	log, ok := w.log.(Placed)
	if !ok {
		return
	}
	wanted := map[runevent.Stream][]runevent.Head{}
	for _, n := range nodes {
		if n == nil || n.file != nil {
			continue
		}
		for _, at := range n.records {
			wanted[n.stream] = append(wanted[n.stream], runevent.Head{Sequence: at.sequence, Position: at.position})
		}
	}
	w.singles = map[runevent.Stream][]runevent.Record{}
	for stream, places := range wanted {
		if len(places) > maxSingles {
			continue
		}
		if records, err := log.Records(ctx, stream, places); err == nil {
			w.singles[stream] = records
		}
	}
}

// errEnough ends a read early.
var errEnough = errors.New("enough")

// record returns a record; false when the stream does not have it.
func (w *window) record(ctx context.Context, stream runevent.Stream, at recordAt) (runevent.Record, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sequence := at.sequence
	for _, record := range w.singles[stream] {
		if record.Head.Sequence == sequence {
			return record, true, nil
		}
	}
	if record, ok := w.forward.record(ctx, stream, at); ok {
		return record, true, nil
	}
	key := chunkKey{stream, (sequence - 1) / chunkLength}
	chunk, ok := w.chunks[key]
	if !ok || len(chunk) == 0 || chunk[len(chunk)-1].Head.Sequence < sequence {
		w.drop(key)
		var err error
		if chunk, err = w.read(ctx, key); err != nil {
			return runevent.Record{}, false, err
		}
		w.keep(key, chunk)
	} else {
		w.touch(key)
	}
	for _, record := range chunk {
		if record.Head.Sequence == sequence {
			return record, true, nil
		}
	}
	return runevent.Record{}, false, nil
}

func (w *window) read(ctx context.Context, key chunkKey) ([]runevent.Record, error) {
	var chunk []runevent.Record
	last := (key.number + 1) * chunkLength
	err := w.log.Read(ctx, key.stream, key.number*chunkLength, func(record runevent.Record) error {
		if record.Head.Sequence > last {
			return errEnough
		}
		chunk = append(chunk, record)
		if record.Head.Sequence == last {
			return errEnough
		}
		return nil
	})
	switch {
	case err == nil, errors.Is(err, errEnough), errors.Is(err, runevent.ErrTruncated):
		return chunk, nil
	}
	return nil, fmt.Errorf("read %s: %w", streamName(key.stream), err)
}

func (w *window) keep(key chunkKey, chunk []runevent.Record) {
	w.chunks[key] = chunk
	w.used = append(w.used, key)
	w.bytes += sizeOfChunk(chunk)
	for len(w.used) > 1 && (len(w.used) > windowChunks || w.bytes > windowBytes) {
		w.drop(w.used[0])
	}
}

func (w *window) touch(key chunkKey) {
	last := len(w.used) - 1
	for i := last - 1; i >= 0 && w.used[last] != key; i-- {
		if w.used[i] == key {
			copy(w.used[i:], w.used[i+1:])
			w.used[last] = key
		}
	}
}

func (w *window) drop(key chunkKey) {
	for i, k := range w.used {
		if k != key {
			continue
		}
		w.used = slices.Delete(w.used, i, i+1)
		w.bytes -= sizeOfChunk(w.chunks[key])
		delete(w.chunks, key)
		return
	}
}

func sizeOfChunk(chunk []runevent.Record) int {
	size := 0
	for _, record := range chunk {
		size += len(record.Raw)
	}
	return size
}
