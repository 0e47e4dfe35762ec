// Package natsqueue is the work queue on JetStream, with what workers and controllers tell each other beside it: which
// workers are alive, prompt cancels, and live events for whoever is looking.
//
// Guarantees: at most one item per run is in the queue, held ones included; an item is held by one worker at a time and
// delivered again when its holder falls silent, without a bound on deliveries; a holder that has been silent for too
// long can neither extend, settle nor give back what may be another's by then. Items, and nothing else here, survive a
// restart of the server: presence comes back with the next beat, cancels and live events are hints that may be lost.
package natsqueue
