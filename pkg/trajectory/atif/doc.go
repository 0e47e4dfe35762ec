// Package atif writes a trajectory in the Agent Trajectory Interchange Format, version 1.7, and checks such documents.
//
// Guarantees: each line is one complete document, of a run that no other run delegated to, with those that it delegated to inside;
// members that the format does not know stand only in its "extra" objects, below "agentloop"; a step is only written for what was
// recorded as complete, and what was left out is said in "notes"; a count that was not recorded is absent; one step is held at a
// time besides the index.
package atif
