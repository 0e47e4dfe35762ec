// Package natsqueue is the work queue on JetStream, with what workers and controllers tell each other beside it: which
// workers are alive, prompt cancels, and live events for whoever is looking.
//
// Guarantees: at most one item per run is in the queue, held ones included; an item is delivered to one worker at a time
// and again when its holder falls silent, without a bound on deliveries; a holder that has been silent for too long can
// neither extend, settle nor give back what may be another's by then. Items survive a kill of the server; that an item
// was held may be forgotten by it, so that a second worker gets it before its time: who of the two goes on is decided by
// the log's fence, never by the queue. Presence comes back with the next beat; cancels and live events are hints that may
// be lost.
package natsqueue
