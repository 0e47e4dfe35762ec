package cas

// cacheKey has the scope in it, so that a digest learnt from one session never opens another one's object.
type cacheKey struct {
	scope  Scope
	digest Digest
	index  int // -1 for an object that is the message itself
}

// entryOverhead is about what a cached message costs besides its bytes.
const entryOverhead = 256

func cacheKeyOf(scope Scope, ref MessageRef) cacheKey {
	key := cacheKey{scope: scope, digest: ref.Digest, index: -1}
	if ref.Index != nil {
		key.index = *ref.Index
	}
	return key
}
