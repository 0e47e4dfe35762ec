// Package synthetic makes up sessions of any length and size for tests and measurements of what reads them: a run-event
// stream for each agent, and every object that the events name.
//
// Guarantees: the same shape gives the same bytes; what is written follows docs/format to the letter (links, digests,
// committed states, inputs whose digest is that of their parts), but for what a shape asks to be wrong; a session can be
// made longer after it was read.
package synthetic
