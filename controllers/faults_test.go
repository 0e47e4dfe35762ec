package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// fault is how a store or log misbehaves, for everybody from now on.
type fault struct {
	mu sync.Mutex
	// err is what every call answers; hang lets every call wait until its context ends.
	err   error
	hang  bool
	calls int
}

func (f *fault) set(err error, hang bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.hang = err, hang
}

func (f *fault) called() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *fault) meet(ctx context.Context) error {
	f.mu.Lock()
	f.calls++
	err, hang := f.err, f.hang
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	switch {
	case errors.Is(err, errBoom):
		panic(err)
	case errors.Is(err, errTakesNothing), errors.Is(err, errOverwritten):
		return nil
	}
	return err
}

// errTakesNothing lets a store or log answer every question and refuse what is to be stored; errOverwritten is what somebody
// learns who was second.
var (
	errTakesNothing = errors.New("no space left")
	errOverwritten  = fmt.Errorf("append: %w", runevent.ErrFenced)
)

// store is meet for a call that stores something: it is not counted, and no object is missing in it.
func (f *fault) store(ctx context.Context) error {
	f.mu.Lock()
	err, hang := f.err, f.hang
	f.mu.Unlock()
	switch {
	case hang:
		<-ctx.Done()
		return ctx.Err()
	case errors.Is(err, cas.ErrNotFound), errors.Is(err, errBoom):
		return nil
	}
	return err
}

// faultyStore is a store with a fault in its reads, its puts and its purge.
type faultyStore struct {
	cas.Store
	fault
}

func (s *faultyStore) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	if err := s.meet(ctx); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, scope, ref)
}

func (s *faultyStore) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	if err := s.fault.store(ctx); err != nil {
		return cas.Ref{}, err
	}
	return s.Store.Put(ctx, scope, mediaType, data)
}

func (s *faultyStore) Purge(ctx context.Context, scope cas.Scope) error {
	if err := s.meet(ctx); err != nil {
		return err
	}
	return s.Store.Purge(ctx, scope)
}

// faultyLog is a log with a fault in everything.
type faultyLog struct {
	runevent.Log
	fault
}

func (l *faultyLog) Read(ctx context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error {
	if err := l.meet(ctx); err != nil {
		return err
	}
	return l.Log.Read(ctx, stream, after, fn)
}

func (l *faultyLog) Last(ctx context.Context, stream runevent.Stream) (runevent.Record, error) {
	if err := l.meet(ctx); err != nil {
		return runevent.Record{}, err
	}
	return l.Log.Last(ctx, stream)
}

func (l *faultyLog) Append(ctx context.Context, stream runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	if err := l.fault.store(ctx); err != nil {
		return runevent.Head{}, err
	}
	return l.Log.Append(ctx, stream, expect, raw)
}

func (l *faultyLog) Purge(ctx context.Context, namespace, session string) error {
	if err := l.meet(ctx); err != nil {
		return err
	}
	return l.Log.Purge(ctx, namespace, session)
}

// failing lets every write to the API server fail.
func failing(err error) interceptor.Funcs {
	return interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return err
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return err
		},
	}
}
