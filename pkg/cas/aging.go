package cas

import (
	"context"
	"time"
)

// Aging is what a sweep of objects that nothing refers to needs of a store (pkg/sweep). Ages are by the clock of whoever
// keeps the objects, never by the caller's; a put of the same bytes makes an object young again, at the latest when it is
// half as old as a sweep's shortest grace.
//
// ListAged calls fn for each object of the scope with its age, zero when that is not known, in no particular order, and
// stops with fn's first error. GetAged is Get together with the age at that moment. Remove removes an object; one that is
// not there is a success. Their errors are those of Store.
type Aging interface {
	ListAged(ctx context.Context, scope Scope, fn func(digest Digest, age time.Duration) error) error
	GetAged(ctx context.Context, scope Scope, ref Ref) ([]byte, time.Duration, error)
	Remove(ctx context.Context, scope Scope, digest Digest) error
}

// MinGrace is the shortest age at which an object that nothing refers to may be removed: twice as long as a writer may go on
// referring to an object on the strength of an earlier put.
const MinGrace = 24 * time.Hour
