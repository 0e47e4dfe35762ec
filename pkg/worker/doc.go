// Package worker takes queued runs and executes them: it owns their goroutines, keeps their work items alive, and hands
// them back when it stops.
//
// Guarantees: a work item is acknowledged only after the run's terminal event is in the log; a run that this worker
// lost to another is left alone; stopping ends no run, it only hands runs back; one run's failure touches no other.
package worker
