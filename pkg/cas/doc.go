// Package cas is the content-addressed storage vocabulary: digests, references, the Store port, and the manifests
// that let the inputs and states of a session share their messages.
//
// Guarantees: a Digest is made only by parsing or hashing; every object is scoped to one session, so no digest of one
// session reaches another's object; whatever a Store returns has the digest and size that were asked for, or the call
// fails with ErrCorrupt or ErrNotFound.
package cas
