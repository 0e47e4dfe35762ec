// Package metrics counts and times what the manager does, for Prometheus.
//
// Guarantees: no label is the name of a session, a run, a user or a tool; every label has a bounded number of values, whatever
// runs contain, and what goes beyond the bound is counted under "other"; no metric holds contents; measuring never waits and
// never fails what is measured. docs/operations/metrics.md lists each metric, and a test holds it to what is registered.
package metrics
