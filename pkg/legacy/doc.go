// Package legacy knows the files that earlier versions wrote about a session: journals, event segments and payloads. It
// says what a file is, cuts it into lines, and translates a line into run events of today. docs/format/legacy.md defines
// the shapes.
//
// Guarantees: nothing is read or written here but the bytes that are handed in; a line that is not understood is said to
// be unknown or malformed and never half taken; translating changes no byte of what is stored; what a line does not
// record stays absent.
package legacy
