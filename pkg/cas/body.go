package cas

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// PartSize is the size in bytes of every part of a body but its last one. It is fixed, so that equal bodies have equal
// parts.
const PartSize = 4 << 20

// Parts is the list object of a body that is larger than MaxObject.
type Parts struct {
	// MediaType is the body's own.
	MediaType string `json:"mediaType"`
	// Size is the body's size in bytes.
	Size int64 `json:"size"`
	// Parts are the body's bytes in order, PartSize each but the last.
	Parts []Ref `json:"parts"`
}

// PutBody stores data of any size. Up to MaxObject it is one object of the given media type. A larger body is stored as
// parts and a list of them, and the reference has the list object's digest and size and the media type MediaParts.
func PutBody(ctx context.Context, put PutFunc, mediaType string, data []byte) (Ref, error) {
	if len(data) <= MaxObject {
		return put(ctx, mediaType, data)
	}
	list := Parts{MediaType: mediaType, Size: int64(len(data))}
	for len(data) > 0 {
		part := data[:min(PartSize, len(data))]
		ref, err := put(ctx, MediaBlob, part)
		if err != nil {
			return Ref{}, fmt.Errorf("part %d: %w", len(list.Parts), err)
		}
		list.Parts = append(list.Parts, Ref{Digest: ref.Digest, Size: ref.Size})
		data = data[len(part):]
	}
	return putList(ctx, put, list)
}

// PutBodyFrom stores a body of size bytes that is read from r, one part at a time. The reference is the one that PutBody
// gives for the same bytes. A reader with fewer or more bytes is ErrInvalid; parts may have been stored then.
func PutBodyFrom(ctx context.Context, put PutFunc, mediaType string, r io.Reader, size int64) (Ref, error) {
	if size < 0 {
		return Ref{}, fmt.Errorf("%w: a body of %d bytes", ErrInvalid, size)
	}
	list := Parts{MediaType: mediaType, Size: size}
	step := int64(PartSize)
	if size <= MaxObject {
		step = size
	}
	for left := size; ; {
		part := make([]byte, min(step, left))
		if _, err := io.ReadFull(r, part); err != nil {
			return Ref{}, fmt.Errorf("%w: %d of %d bytes are missing: %w", ErrInvalid, left, size, err)
		}
		left -= int64(len(part))
		if left == 0 {
			if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
				return Ref{}, fmt.Errorf("%w: more than %d bytes", ErrInvalid, size)
			}
		}
		if size <= MaxObject {
			return put(ctx, mediaType, part)
		}
		ref, err := put(ctx, MediaBlob, part)
		if err != nil {
			return Ref{}, fmt.Errorf("part %d: %w", len(list.Parts), err)
		}
		list.Parts = append(list.Parts, Ref{Digest: ref.Digest, Size: ref.Size})
		if left == 0 {
			return putList(ctx, put, list)
		}
	}
}

func putList(ctx context.Context, put PutFunc, list Parts) (Ref, error) {
	raw, err := json.Marshal(list)
	if err != nil {
		return Ref{}, fmt.Errorf("encode parts: %w", err)
	}
	return put(ctx, MediaParts, raw)
}

// GetBody returns a body that PutBody stored and its media type. A body of more than limit bytes is ErrTooLarge before
// any of its parts is read.
func GetBody(ctx context.Context, store Store, scope Scope, ref Ref, limit int64) ([]byte, string, error) {
	var buf bytes.Buffer
	mediaType, err := CopyBody(ctx, &buf, store, BodyRequest{Scope: scope, Ref: ref, Limit: limit})
	if err != nil {
		return nil, "", err
	}
	return buf.Bytes(), mediaType, nil
}

// BodyRequest says which body is read.
type BodyRequest struct {
	Scope Scope
	Ref   Ref
	// Limit is the largest body in bytes that is accepted.
	Limit int64
}

// CopyBody writes a body to w, one verified part at a time, and returns its media type. When it fails, w may have got
// a beginning of the body, which is true but not whole.
func CopyBody(ctx context.Context, w io.Writer, store Store, req BodyRequest) (string, error) {
	if req.Ref.MediaType != MediaParts && req.Ref.Size > req.Limit {
		return "", fmt.Errorf("%w: body %s has %d bytes, at most %d are wanted", ErrTooLarge, req.Ref.Digest, req.Ref.Size, req.Limit)
	}
	data, err := store.Get(ctx, req.Scope, req.Ref)
	if err != nil {
		return "", err
	}
	if req.Ref.MediaType != MediaParts {
		if int64(len(data)) > req.Limit {
			return "", fmt.Errorf("%w: body %s has %d bytes, at most %d are wanted", ErrTooLarge, req.Ref.Digest, len(data), req.Limit)
		}
		_, err := w.Write(data)
		return req.Ref.MediaType, err
	}
	list, err := decodeParts(data)
	if err != nil {
		return "", fmt.Errorf("body %s: %w", req.Ref.Digest, err)
	}
	if list.Size > req.Limit {
		return "", fmt.Errorf("%w: body %s has %d bytes, at most %d are wanted", ErrTooLarge, req.Ref.Digest, list.Size, req.Limit)
	}
	for i, part := range list.Parts {
		data, err := store.Get(ctx, req.Scope, part)
		if err != nil {
			return "", fmt.Errorf("part %d of body %s: %w", i, req.Ref.Digest, err)
		}
		if _, err := w.Write(data); err != nil {
			return "", err
		}
	}
	return list.MediaType, nil
}

// Range is a part of a body.
type Range struct{ Offset, Length int64 }

// ReadRange returns a part of a body that PutBody stored, and reads only the objects that it stands in. get is the
// store's; a caller that reads many parts of one body remembers objects there. A range that is not within the body is
// ErrInvalid.
func ReadRange(ref Ref, r Range, get func(Ref) ([]byte, error)) ([]byte, error) {
	data, err := get(ref)
	if err != nil {
		return nil, err
	}
	if ref.MediaType != MediaParts {
		if r.Offset < 0 || r.Length < 0 || r.Offset+r.Length > int64(len(data)) {
			return nil, fmt.Errorf("%w: bytes %d to %d of a body of %d", ErrInvalid, r.Offset, r.Offset+r.Length, len(data))
		}
		return bytes.Clone(data[r.Offset : r.Offset+r.Length]), nil
	}
	list, err := decodeParts(data)
	if err != nil {
		return nil, fmt.Errorf("body %s: %w", ref.Digest, err)
	}
	if r.Offset < 0 || r.Length < 0 || r.Offset+r.Length > list.Size {
		return nil, fmt.Errorf("%w: bytes %d to %d of a body of %d", ErrInvalid, r.Offset, r.Offset+r.Length, list.Size)
	}
	out := make([]byte, 0, r.Length)
	for number := r.Offset / PartSize; int64(len(out)) < r.Length; number++ {
		part, err := get(list.Parts[number])
		if err != nil {
			return nil, fmt.Errorf("part %d of body %s: %w", number, ref.Digest, err)
		}
		part = part[r.Offset+int64(len(out))-number*PartSize:]
		out = append(out, part[:min(int64(len(part)), r.Length-int64(len(out)))]...)
	}
	return out, nil
}

// decodeParts parses a list of parts. The sizes in it are exact, so that a body's size is known before it is read.
func decodeParts(raw []byte) (Parts, error) {
	var list Parts
	if err := decodeStrict(raw, &list); err != nil {
		return Parts{}, fmt.Errorf("parts: %w", err)
	}
	var sum int64
	for i, part := range list.Parts {
		if err := part.Validate(); err != nil {
			return Parts{}, fmt.Errorf("parts: %w: part %d: %w", ErrCorrupt, i, err)
		}
		last := i == len(list.Parts)-1
		if part.Size == 0 || part.Size > PartSize || (!last && part.Size != PartSize) {
			return Parts{}, fmt.Errorf("parts: %w: part %d has %d bytes", ErrCorrupt, i, part.Size)
		}
		sum += part.Size
	}
	if sum != list.Size {
		return Parts{}, fmt.Errorf("parts: %w: parts have %d bytes, the body has %d", ErrCorrupt, sum, list.Size)
	}
	return list, nil
}
