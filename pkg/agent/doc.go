// Package agent is the loop of one run: assemble, project, measure, guard, dispatch, run tools, commit.
//
// Guarantees: an object is durable before the entry that names it; the prompt is durable before anything is done with
// it; no request that is over budget, unguarded or cancelled reaches the network; a completed tool call never runs
// again; whatever a run did so far can be taken over from the log by another worker at any point.
package agent
