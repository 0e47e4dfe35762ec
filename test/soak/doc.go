// Package soak tells many stories at once on a whole installation with three NATS servers, several workers and one process of
// controllers, while parts of it fail.
//
// Guarantees: every story that was begun comes to the end that it has undisturbed, but for calls whose effect is told as
// unknown, within a bounded time; what the log had at any look is still there at the end, byte for byte; no tool that is not
// repeatable has taken effect more than once; every session verifies. The faults of a soak are drawn from a seed, which is printed.
package soak
