// Package budget decides, before a model request leaves the process, whether it fits the model's context window and
// which output caps it may declare.
//
// Guarantees: pure functions of their arguments (no I/O, clock, environment, logging or goroutines); the same request
// always gives the same budget, with or without a Cache; all arithmetic is on non-negative safe integers (up to 2^53-1)
// and cannot overflow; a capacity or cap out of range is an error and never silently repaired; nothing given in is
// changed, and a budget that is handed out shares no memory with another. Counts are estimates of a request's size in
// tokens, not a provider's bill.
package budget
