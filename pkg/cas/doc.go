// Package cas is the content-addressed storage vocabulary: digests, references, the Store port, the layout of keys, and
// the manifests that let the inputs and states of a session share their messages.
//
// Guarantees: a Digest is made only by parsing or hashing; every object is scoped to one session, so no digest of one
// session reaches another's object; whatever a Store returns has the digest and size that were asked for, or the call
// fails with ErrCorrupt or ErrNotFound; a list, a message or a body that is read has every part that was put, in order,
// or the read fails; nothing here deletes an object because it could not be read.
package cas
