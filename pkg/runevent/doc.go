// Package runevent is the run-event vocabulary: the envelope and its types, the codec, the chain that joins the entries
// of a stream, and the Log port.
//
// Guarantees: an entry's bytes are produced once and never re-marshalled; sequences of a stream are 1, 2, 3 without
// gaps; each entry names the digest of the one before it; an unknown type or a higher format version is reported, never
// skipped in silence.
package runevent
