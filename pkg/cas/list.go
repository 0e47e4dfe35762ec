package cas

import (
	"context"
	"fmt"
)

// PutFunc stores one object durably. Into binds a Store's Put to one session.
type PutFunc func(ctx context.Context, mediaType string, data []byte) (Ref, error)

// Into returns a PutFunc that stores into one session's objects.
func Into(store Store, scope Scope) PutFunc {
	return func(ctx context.Context, mediaType string, data []byte) (Ref, error) {
		return store.Put(ctx, scope, mediaType, data)
	}
}

// BuildList packs refs, a whole history from its first message on, into a MessageList. It is BuildListAt with start 0.
func BuildList(ctx context.Context, put PutFunc, refs []MessageRef, prev *MessageList) (MessageList, error) {
	return BuildListAt(ctx, put, 0, refs, prev)
}

// BuildListAt packs refs into segments and a tail. start is the history index that refs[0] has or stands at: segments
// end where the history index is a multiple of SegmentLength, so that an input that begins in the middle of a history
// shares the later segments with it. For an input of one summary and the history from index b on, start is b-1.
//
// put is called, in order, once for each closed segment that prev does not have already; prev may be nil, and may be
// any list of the same session whose segments are known to be durable. The tail is copied. refs is neither kept nor
// changed. An error leaves at most some unreferenced segments behind, and the same call again puts the same bytes.
func BuildListAt(ctx context.Context, put PutFunc, start int, refs []MessageRef, prev *MessageList) (MessageList, error) {
	if start < 0 {
		return MessageList{}, fmt.Errorf("%w: list that starts at index %d", ErrInvalid, start)
	}
	list := MessageList{Count: len(refs)}
	known := segmentsOf(prev)
	for size := SegmentLength - start%SegmentLength; len(refs) >= size; size = SegmentLength {
		ref, err := putSegment(ctx, put, refs[:size], known)
		if err != nil {
			return MessageList{}, fmt.Errorf("segment %d: %w", len(list.Segments), err)
		}
		list.Segments = append(list.Segments, ref)
		refs = refs[size:]
	}
	for _, ref := range refs {
		if err := ref.validate(); err != nil {
			return MessageList{}, err
		}
	}
	list.Tail = append([]MessageRef(nil), refs...)
	return list, nil
}

func segmentsOf(list *MessageList) map[Digest]int64 {
	if list == nil || len(list.Segments) == 0 {
		return nil
	}
	known := make(map[Digest]int64, len(list.Segments))
	for _, ref := range list.Segments {
		known[ref.Digest] = ref.Size
	}
	return known
}

func putSegment(ctx context.Context, put PutFunc, refs []MessageRef, known map[Digest]int64) (Ref, error) {
	for _, ref := range refs {
		if err := ref.validate(); err != nil {
			return Ref{}, err
		}
	}
	raw, err := Segment{Messages: refs}.MarshalJSON()
	if err != nil {
		return Ref{}, err
	}
	ref := Ref{Digest: Of(raw), Size: int64(len(raw))}
	if size, ok := known[ref.Digest]; ok && size == ref.Size {
		return ref, nil
	}
	stored, err := put(ctx, MediaSegment, raw)
	if err != nil {
		return Ref{}, err
	}
	if stored.Digest != ref.Digest {
		return Ref{}, fmt.Errorf("%w: stored as %s instead of %s", ErrCorrupt, stored.Digest, ref.Digest)
	}
	return ref, nil
}

// listParallel bounds the segments that one ReadList fetches at a time.
const listParallel = 8

// ReadList returns the references of a list in order. A list whose segments hold another number of messages than its
// count, or are not segments, is ErrCorrupt.
func ReadList(ctx context.Context, store Store, scope Scope, list MessageList) ([]MessageRef, error) {
	raws, err := getAll(ctx, store, scope, list.Segments, listParallel)
	if err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	most := len(raws)*SegmentLength + len(list.Tail)
	if list.Count < 0 || list.Count > most {
		return nil, fmt.Errorf("read list: %w: count %d with %d segments and %d in the tail", ErrCorrupt, list.Count, len(raws), len(list.Tail))
	}
	refs := make([]MessageRef, 0, list.Count)
	for i, raw := range raws {
		segment, err := decodeSegment(raw)
		if err != nil {
			return nil, fmt.Errorf("read list: segment %d (%s): %w", i, list.Segments[i].Digest, err)
		}
		refs = append(refs, segment.Messages...)
	}
	for _, ref := range list.Tail {
		if err := ref.validate(); err != nil {
			return nil, fmt.Errorf("read list: %w: %w", ErrCorrupt, err)
		}
	}
	refs = append(refs, list.Tail...)
	if len(refs) != list.Count {
		return nil, fmt.Errorf("read list: %w: %d messages, count says %d", ErrCorrupt, len(refs), list.Count)
	}
	return refs, nil
}
