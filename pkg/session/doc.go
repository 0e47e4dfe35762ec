// Package session defines what a session's stored objects hold and how its run events fold into session state.
//
// Guarantees: folding is pure, so state comes out of the log the same after any crash; history only ever
// grows; an object that this package decodes has a known format version, or ErrFormat is returned and nothing is
// guessed.
package session
