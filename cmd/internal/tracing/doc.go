// Package tracing tells an OpenTelemetry backend what runs do: one trace for a run with everything that it delegates,
// whichever workers execute it.
//
// Guarantees: nothing is sent unless the standard variables name a receiver; nothing waits for the receiver, and spans that it
// does not take in time are dropped and counted; contents are in spans only when that was asked for, and then without
// credentials; a run has the same trace and the same span on every worker, and in the export of its session.
// docs/operations/tracing.md describes spans and settings.
package tracing
