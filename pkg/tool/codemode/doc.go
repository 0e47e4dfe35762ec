// Package codemode lets a model call tools from JavaScript that it writes: the schemas of these tools stay out of its
// requests, and one tool that runs code stands for all of them.
//
// Guarantees: code runs in a process of its own, without environment, files or network, within bounds of memory, time
// and output; whatever it does ends as a result of the one call and harms nothing else. Code reaches nothing but the
// tools that the wrapped set has, through that set, which checks arguments as for any other call; tools that need a
// person's approval are not among them. A nested call is reported to the engine before it starts and after it ended,
// always by the goroutine that runs the outer call.
package codemode
