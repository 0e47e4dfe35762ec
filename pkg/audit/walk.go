package audit

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/internal/lru"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/session"
)

const (
	// parallel is how many objects are read at once.
	parallel = 8
	// keptBytes bounds the objects that are kept: the inputs of a session have most of their parts in common.
	keptBytes = 64 << 20
)

// seen is what is known of an object that was met.
type seen struct {
	// size is its size in bytes; broken says that it could not be read or understood, which was reported.
	size   int64
	broken bool
	// held are the messages that it holds; nil for an object that is no container.
	held map[int]bool
}

// objects looks at each object once.
type objects struct {
	audit *Audit
	// store keeps what was read last.
	store    *keeping
	resolver *cas.Resolver
	seen     map[cas.Digest]*seen
	// waiting are the references to objects that were not read yet.
	waiting []link
	// later are messages that are wanted of containers that were not read yet.
	later []link
}

func newObjects(a *Audit) *objects {
	store := &keeping{Store: a.Store, kept: lru.New[cas.Digest, []byte](keptBytes)}
	return &objects{
		audit: a, store: store, seen: map[cas.Digest]*seen{},
		resolver: cas.NewResolver(store, session.MessageIn, cas.ResolverOptions{Parallel: parallel}),
	}
}

// keeping is a store that keeps the objects that were read last.
type keeping struct {
	cas.Store
	kept *lru.Cache[cas.Digest, []byte]
}

// Get implements cas.Store. What it returns must not be changed.
func (k *keeping) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	if raw, ok := k.kept.Get(ref.Digest); ok && (ref.Size == 0 || ref.Size == int64(len(raw))) {
		return raw, nil
	}
	raw, err := k.Store.Get(ctx, scope, ref)
	if err == nil {
		k.kept.Add(ref.Digest, raw, int64(len(raw)))
	}
	return raw, err
}

// add takes references up. Those to objects that were met are judged at once, as far as they can be.
func (o *objects) add(links []link) error {
	for _, l := range links {
		if l.ref.Validate() != nil {
			if err := o.problem(l, CodeReference, "The reference is malformed."); err != nil {
				return err
			}
			continue
		}
		if known := o.seen[l.ref.Digest]; known != nil {
			o.later = append(o.later, l)
			continue
		}
		o.seen[l.ref.Digest] = &seen{size: -1}
		o.waiting = append(o.waiting, l)
	}
	return nil
}

func (o *objects) problem(l link, code Code, message string) error {
	return o.audit.problem(Problem{
		Code: code, Stream: l.from.stream, Sequence: l.from.sequence, Digest: l.ref.Digest, Path: l.path, Message: message,
	})
}

// read reads everything that waits, and what that reaches.
func (o *objects) read(ctx context.Context) error {
	inputs, err := o.reach(ctx)
	if err != nil {
		return err
	}
	for _, in := range inputs {
		if err := o.check(ctx, in); err != nil {
			return err
		}
	}
	if len(o.waiting) == 0 {
		return nil
	}
	return o.read(ctx) // bodies in parts reach further objects
}

// reach reads objects until none waits, and returns what is left to check of them.
func (o *objects) reach(ctx context.Context) ([]input, error) {
	var inputs []input
	for len(o.waiting) > 0 {
		batch := o.waiting
		if len(batch) > parallel {
			batch = batch[:parallel]
		}
		o.waiting = slices.Clone(o.waiting[len(batch):])
		for i, got := range o.get(ctx, batch) {
			found, err := o.take(batch[i], got)
			if err != nil {
				return nil, err
			}
			if found != nil {
				inputs = append(inputs, *found)
			}
		}
	}
	for _, l := range o.later {
		if err := o.judge(l); err != nil {
			return nil, err
		}
	}
	o.later = nil
	return inputs, nil
}

// fetched is an object as the store gave it.
type fetched struct {
	raw []byte
	err error
}

// get reads objects at the same time.
func (o *objects) get(ctx context.Context, batch []link) []fetched {
	out := make([]fetched, len(batch))
	var group sync.WaitGroup
	for i, l := range batch {
		group.Go(func() { out[i].raw, out[i].err = o.store.Get(ctx, o.audit.Scope, l.ref) })
	}
	group.Wait()
	return out
}

// input is an object whose lists, and whose materialised bytes, are checked when all of its parts were read.
type input struct {
	link
	opened
}

// take looks into one object that was read. It returns what is left to check.
func (o *objects) take(l link, got fetched) (*input, error) {
	known := o.seen[l.ref.Digest]
	err := got.err
	var in opened
	if err == nil {
		known.size = int64(len(got.raw))
		o.audit.sum.Objects++
		o.audit.sum.Bytes += known.size
		in, err = open(l, got.raw)
	}
	if err != nil {
		known.broken = true
		code, message, final := codeOf(err)
		if !final {
			return nil, fmt.Errorf("read %s: %w", l.ref.Digest, err)
		}
		return nil, o.problem(l, code, message)
	}
	if isContainer(l.ref.MediaType) {
		known.held = inlineMessages(got.raw)
	}
	if err := o.judge(l); err != nil {
		return nil, err
	}
	if err := o.add(in.links); err != nil {
		return nil, err
	}
	if in.context == nil && in.lists == nil && (in.body == "" || in.body == mediaText) {
		return nil, nil //nolint:nilnil // nothing is left to check
	}
	return &input{l, in}, nil
}

// assemble looks into a body that was stored in parts. Its parts were read; what is wrong with them was said.
func (o *objects) assemble(ctx context.Context, in input) (input, error) {
	raw, _, err := cas.GetBody(ctx, o.store, o.audit.Scope, in.ref, maxBody)
	if err != nil {
		return input{}, final(err)
	}
	whole := in.link
	whole.ref.MediaType = in.body
	out, err := open(whole, raw)
	if err != nil {
		if code, message, known := codeOf(err); known {
			return input{}, o.problem(whole, code, message)
		}
		return input{}, err
	}
	return input{whole, out}, o.add(out.links)
}

// judge checks a reference against the object that was read.
func (o *objects) judge(l link) error {
	known := o.seen[l.ref.Digest]
	switch {
	case known.broken || known.size < 0:
		return nil
	case l.ref.Size != 0 && l.ref.Size != known.size:
		return o.problem(l, CodeReference, fmt.Sprintf("The reference says %d bytes, the object has %d.", l.ref.Size, known.size))
	case l.index >= 0 && known.held != nil && !known.held[l.index], l.index >= 0 && known.held == nil:
		return o.problem(l, CodeReference, fmt.Sprintf("The object holds no message %d.", l.index))
	}
	return nil
}

// check puts together what an object says of its parts.
func (o *objects) check(ctx context.Context, in input) error {
	if in.body != "" {
		var err error
		if in, err = o.assemble(ctx, in); err != nil {
			return err
		}
	}
	for field, list := range in.lists {
		refs, err := cas.ReadList(ctx, o.store, o.audit.Scope, list)
		switch {
		case err == nil && in.context != nil:
			if err := o.materialise(ctx, in, refs); err != nil {
				return err
			}
		case err == nil:
		case !cas.IsFinal(err):
			return fmt.Errorf("read the list of %s: %w", in.ref.Digest, err)
		case o.whole(list):
			if err := o.problem(in.link, CodeList, "The list "+field+" does not have the messages that it says."); err != nil {
				return err
			}
		}
	}
	return nil
}

// whole says whether no segment of a list was found broken: what is wrong with those was said.
func (o *objects) whole(list cas.MessageList) bool {
	for _, ref := range list.Segments {
		if known := o.seen[ref.Digest]; known == nil || known.broken {
			return false
		}
	}
	return true
}

// materialise puts a model input together and compares it with the bytes that were fixed. Parts that cannot be read were
// reported.
func (o *objects) materialise(ctx context.Context, in input, refs []cas.MessageRef) error {
	raws, err := o.resolver.Messages(ctx, o.audit.Scope, refs)
	if err != nil {
		return final(err)
	}
	var sections session.Sections
	var set session.ToolSet
	if ref := in.context.System; ref != nil {
		if sections, err = object[session.Sections](ctx, o, *ref); err != nil {
			return final(err)
		}
	}
	if ref := in.context.Tools; ref != nil {
		if set, err = object[session.ToolSet](ctx, o, *ref); err != nil {
			return final(err)
		}
	}
	var tools []message.Tool
	for _, definition := range set.Tools {
		tools = append(tools, definition.Tool)
	}
	o.audit.sum.Inputs++
	bytes := session.AppendInput(nil, projection.RenderSystem(sections.Sections), raws, tools)
	if cas.Of(bytes) != in.context.InputDigest || int64(len(bytes)) != in.context.InputSize {
		return o.problem(in.link, CodeInput, "The stored parts do not make the input that was fixed.")
	}
	return nil
}

func object[T any](ctx context.Context, o *objects, ref cas.Ref) (T, error) {
	raw, _, err := cas.GetBody(ctx, o.store, o.audit.Scope, ref, maxBody)
	if err != nil {
		var zero T
		return zero, err
	}
	return session.DecodeObject[T](raw)
}

// maxBody bounds what is put together of parts, in bytes.
const maxBody = 256 << 20

// final passes on only errors of the store itself.
func final(err error) error {
	if _, _, known := codeOf(err); known {
		return nil
	}
	return err
}
