// Package stories has conversations that are told on a whole installation, and what holds of them whatever happens meanwhile.
//
// Guarantees: the same story has the same history however often it is told, but for visible retries and for calls whose effect
// is told as unknown; each telling has a namespace, model and texts of its own, so that its requests and the effects of its
// tools are known from those of others; every wait is bounded. Tests alone import it.
package stories
