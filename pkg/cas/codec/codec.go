// Package codec is the envelope in which stores keep an object's bytes: self-describing, compressed where that pays.
//
// Guarantees: decoding returns exactly what was encoded; it never allocates or returns more than the caller's limit,
// whatever the bytes claim; whatever is not a whole, exact envelope is cas.ErrCorrupt; an envelope is at most HeaderSize
// bytes longer than its object. docs/format/cas.md defines the bytes.
package codec

import (
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/agentloop/agentloop/pkg/cas"
)

// HeaderSize is the length in bytes of what stands before the payload: magic, codec, decoded size.
const HeaderSize = len(magic) + 1 + 4

// magic begins every envelope; its last byte is the version of the envelope.
const magic = "ALC\x01"

// The codecs. Their values are part of the format.
const (
	codecRaw  = 0
	codecZstd = 1
)

// minCompress is the size up to which an object is stored as it is: below it zstd's own header eats the gain.
const minCompress = 512

// MaxEncoded returns the length of the longest envelope of an object of that size.
func MaxEncoded(size int64) int64 { return size + int64(HeaderSize) }

// Encode wraps data. The payload is compressed when data has more than 512 bytes and at least a tenth is saved.
func Encode(data []byte) ([]byte, error) {
	if len(data) > cas.MaxObject {
		return nil, fmt.Errorf("%w: %d bytes, an object has at most %d", cas.ErrTooLarge, len(data), cas.MaxObject)
	}
	if len(data) > minCompress {
		enc, err := encoder()
		if err != nil {
			return nil, fmt.Errorf("start compressor: %w", err)
		}
		out := enc.EncodeAll(data, header(codecZstd, len(data), len(data)/2))
		if len(out)-HeaderSize <= len(data)-len(data)/10 {
			return out, nil
		}
	}
	return append(header(codecRaw, len(data), len(data)), data...), nil
}

func header(codec byte, size, room int) []byte {
	b := append(make([]byte, 0, HeaderSize+room), magic...)
	b = append(b, codec)
	return binary.BigEndian.AppendUint32(b, uint32(size))
}

// Decode returns the object inside an envelope. An object of more than limit bytes is cas.ErrTooLarge, whatever else is
// wrong with it; a limit above cas.MaxObject means cas.MaxObject. The result does not alias encoded.
func Decode(encoded []byte, limit int64) ([]byte, error) {
	if len(encoded) < HeaderSize || string(encoded[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: not an envelope (%d bytes)", cas.ErrCorrupt, len(encoded))
	}
	codec := encoded[len(magic)]
	size := int64(binary.BigEndian.Uint32(encoded[len(magic)+1:]))
	payload := encoded[HeaderSize:]
	if limit = min(limit, cas.MaxObject); size > limit {
		return nil, fmt.Errorf("%w: envelope of %d bytes, at most %d are wanted", cas.ErrTooLarge, size, limit)
	}
	switch codec {
	case codecRaw:
		if int64(len(payload)) != size {
			return nil, fmt.Errorf("%w: envelope of %d bytes holds %d", cas.ErrCorrupt, size, len(payload))
		}
		return append(make([]byte, 0, size), payload...), nil
	case codecZstd:
		return decompress(payload, size)
	}
	return nil, fmt.Errorf("%w: unknown codec %d", cas.ErrCorrupt, codec)
}

func decompress(payload []byte, size int64) ([]byte, error) {
	dec, err := decoder()
	if err != nil {
		return nil, fmt.Errorf("start decompressor: %w", err)
	}
	// The capacity is the bound: the decoder refuses to write beyond it.
	data, err := dec.DecodeAll(payload, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("%w: decompress: %w", cas.ErrCorrupt, err)
	}
	if int64(len(data)) != size {
		return nil, fmt.Errorf("%w: envelope of %d bytes holds %d", cas.ErrCorrupt, size, len(data))
	}
	return data, nil
}

// DecodeVerified returns the object that ref names out of its envelope, with its size and digest checked.
func DecodeVerified(encoded []byte, ref cas.Ref) ([]byte, error) {
	data, err := Decode(encoded, Limit(ref))
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", ref.Digest, err)
	}
	return data, cas.Verify(ref, data)
}

// Limit returns the largest decoded size that ref allows.
func Limit(ref cas.Ref) int64 {
	if ref.Size > 0 {
		return ref.Size
	}
	return cas.MaxObject
}

// ReadVerified reads one envelope from r, never more than an object of ref's size can have, and returns the object.
// The reader's own errors are passed on and are not cas.ErrCorrupt.
func ReadVerified(r io.Reader, ref cas.Ref) ([]byte, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	encoded, err := cas.ReadAtMost(r, MaxEncoded(Limit(ref)))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref.Digest, err)
	}
	return DecodeVerified(encoded, ref)
}

// maxParallel bounds the compressors and decompressors of the process, because each holds some megabytes once used.
const maxParallel = 4

// encoder has the level whose tables fit a processor's cache: an object is a few kilobytes of digests, in which the levels
// above find a percent more, in twice the time or more.
var encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedDefault),
		zstd.WithAllLitEntropyCompression(true), // digests have no matches, but few different characters
		zstd.WithEncoderConcurrency(min(maxParallel, runtime.GOMAXPROCS(0))),
		zstd.WithEncoderCRC(false), // the digest is the checksum
		zstd.WithWindowSize(1<<20),
		zstd.WithLowerEncoderMem(true),
	)
})

var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(min(maxParallel, runtime.GOMAXPROCS(0))),
		zstd.WithDecoderMaxMemory(cas.MaxObject),
		zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderLowmem(true),
	)
})
