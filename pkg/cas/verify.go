package cas

import (
	"errors"
	"fmt"
	"io"
)

// Verify checks that data is the object that ref names. Bytes beyond what the reference or MaxObject allows are
// ErrTooLarge; any other difference in size, or another digest, is ErrCorrupt.
func Verify(ref Ref, data []byte) error {
	size := int64(len(data))
	switch {
	case size > MaxObject:
		return fmt.Errorf("%w: %s has %d bytes, an object has at most %d", ErrTooLarge, ref.Digest, size, MaxObject)
	case ref.Size > 0 && size > ref.Size:
		return fmt.Errorf("%w: %s has %d bytes, its reference says %d", ErrTooLarge, ref.Digest, size, ref.Size)
	case ref.Size > 0 && size < ref.Size:
		return fmt.Errorf("%w: %s has %d bytes, its reference says %d", ErrCorrupt, ref.Digest, size, ref.Size)
	}
	if got := Of(data); got != ref.Digest {
		return fmt.Errorf("%w: bytes stored as %s have the digest %s", ErrCorrupt, ref.Digest, got)
	}
	return nil
}

// ReadAtMost reads r to its end and returns ErrTooLarge as soon as there are more than limit bytes. It never holds more
// than about twice limit. A reader that ends early with io.ErrUnexpectedEOF keeps that error, so that a connection that
// broke is not taken for a short object.
func ReadAtMost(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return data, nil
}

// ReadVerified reads an object that is stored as it is, without an envelope: bounded by ref's size (MaxObject when the
// reference gives none) and verified.
func ReadVerified(r io.Reader, ref Ref) ([]byte, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	limit := int64(MaxObject)
	if ref.Size > 0 {
		limit = ref.Size
	}
	data, err := ReadAtMost(r, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref.Digest, err)
	}
	return data, Verify(ref, data)
}

// IsFinal says whether err, from a Store, will be the same for the same call again: what is missing, corrupt, too large
// or malformed stays so. Every other error may pass.
func IsFinal(err error) bool {
	for _, final := range []error{ErrNotFound, ErrCorrupt, ErrTooLarge, ErrInvalid} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}
