// Package audit reads a whole session again and says what does not hold together: every entry of every stream, and every
// object that the entries reach.
//
// Guarantees: it only reads; a problem that is reported is in what is stored, never a store that did not answer, which
// ends the audit with an error; each object is read once, from the session's own scope alone; what is wrong with one thing
// does not keep the others from being looked at; problems hold names, numbers and digests, never contents.
package audit
