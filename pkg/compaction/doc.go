// Package compaction decides when a summary is to stand for the older part of a conversation, which part that is, what
// the model that writes the summary gets to read, whether its answer is one, and what is saved in the end.
//
// The steps are values that the caller drives: Decide (or Recover) says whether to compact and how much to keep, Make
// plans the boundary, Plan.Begin and Progress.Next give the summary requests one after the other, Progress.Accept takes
// each answer, Progress.Checkpoint is the candidate, and Settle says what is committed once the request was measured
// anew.
//
// Guarantees: pure functions of their arguments (no I/O, clock, environment, logging or goroutines); history is never
// changed and a candidate is only settled when it makes the request strictly smaller; a boundary never stands between a
// call and its results; what is summarised can neither end the frame that it is put into nor look like another part of
// it; the zero Rules give exactly the basic rules, and each rule of Rules goes beyond them by itself.
package compaction
