// Package archive moves the events of finished runs into files of the object store, and reads log and files as one stream.
//
// Guarantees: an archive file holds the exact bytes of a stretch of one or more streams, with what it takes to check that
// they are whole and follow the entries before; nothing is removed from the log that was not read back from its file and
// compared, entry by entry, with the log; a stream keeps its last entry, and all that opening its session reads; whatever
// is interrupted is taken up again from what the log and the files say; a file that holds entries which the log does not
// have any more is never written again; who reads through Log sees the same entries, wherever they are, and pays nothing
// for it while they are in the log.
package archive
