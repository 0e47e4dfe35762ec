// Package local runs agents without a cluster: the engine that workers run, over manifests of files, an event log and an object
// store in a folder.
//
// Guarantees: prompts, steps and answers are stored as in a cluster, in the same formats, and a run is never executed twice: a
// folder that is used again goes on where it stopped. Manifests are checked against the schemas of their kinds, and defaults are
// filled in; rules that the API server checks with CEL are not. Nothing listens unless it is asked to.
package local
