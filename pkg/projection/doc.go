// Package projection turns a complete session history into the messages of one model request, and says for every
// message where it came from.
//
// Guarantees: history, snapshots, sections and tools that are given in are never changed; the same input gives the
// same bytes; every row of the result has exactly one source; every tool call is followed at once by exactly one
// result; a row that needs no adaptation is the history message itself, shared and not copied; a Projector that has
// seen the earlier history returns what Project would return. Nothing here does I/O, reads a clock, logs or starts a
// goroutine. Errors name positions and never contents.
package projection
