// Package verify checks an export that was downloaded: that it is complete, and that its lines are what they say of each
// other.
//
// Guarantees: only the export itself is needed, no log and no store; it is read once, in memory that does not grow with
// its size but for some bytes for each entry of its index and the largest single value of an entry; what is wrong is
// reported with the number of the line, and checking goes on where it can; nothing of an export's content gets into a report.
package verify
