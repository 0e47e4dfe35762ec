package audit

import (
	"strconv"

	"github.com/agentloop/agentloop/pkg/cas"
)

// Code says what kind of problem was found.
type Code string

// The problems. The first group is about entries, the second about objects.
const (
	// CodeGap: entries are missing. Sequence and Last are the first and the last of them.
	CodeGap Code = "missingEntries"
	// CodeTruncated: a stream ends before an entry that it is known to have had.
	CodeTruncated Code = "truncatedStream"
	// CodeLink: an entry does not name the one before it: one of the two was replaced.
	CodeLink Code = "brokenLink"
	// CodeDamaged: bytes that are no entry, or not the one that belongs there.
	CodeDamaged Code = "damagedEntry"
	// CodeNewEntry: an entry of a version or type that this program does not know. What it reaches was not looked at.
	CodeNewEntry Code = "unknownEntry"

	// CodeMissing: an object is not in the session's part of the store, wherever else it may be.
	CodeMissing Code = "missingObject"
	// CodeCorrupt: stored bytes do not have the digest or size that their name says, or are not what they should be.
	CodeCorrupt Code = "corruptObject"
	// CodeNewObject: an object of a form that this program does not know. What it reaches was not looked at.
	CodeNewObject Code = "unknownObject"
	// CodeReference: a reference that names nothing that could be there: a malformed one, another size, a message that its
	// container does not have.
	CodeReference Code = "wrongReference"
	// CodeList: a list of messages that resolves to another number than it says.
	CodeList Code = "wrongList"
	// CodeInput: the stored parts of a model input do not make the bytes that were fixed.
	CodeInput Code = "wrongInput"
	// CodeImport: an imported file does not have the bytes that its list says.
	CodeImport Code = "wrongImport"
	// CodeArchive: an archive file cannot be used. Path is its name.
	CodeArchive Code = "damagedArchive"
)

// Problem is one thing that is wrong.
type Problem struct {
	Code Code `json:"code"`
	// Stream and Sequence are where it is, or the first entry from which the object was reached.
	Stream   string `json:"stream,omitempty"`
	Sequence int64  `json:"sequence,omitempty"`
	// Last is the last of several entries; 0 for one alone.
	Last int64 `json:"last,omitempty"`
	// Digest names the object, Path the fields that lead to it from the entry.
	Digest cas.Digest `json:"digest,omitzero"`
	Path   string     `json:"path,omitempty"`
	// Message says it to people.
	Message string `json:"message"`
}

// Summary is what an audit looked at.
type Summary struct {
	Streams  int            `json:"streams"`
	Entries  int64          `json:"entries"`
	Objects  int64          `json:"objects"`
	Bytes    int64          `json:"bytes"`
	Inputs   int64          `json:"inputs"`
	Archives int64          `json:"archives,omitempty"`
	Imported int64          `json:"imported,omitempty"`
	Problems int64          `json:"problems"`
	Codes    map[Code]int64 `json:"codes,omitempty"`
	// Heads are the ends of the agents' streams that were read up to.
	Heads map[string]int64 `json:"heads"`
}

// origin is the entry from which something was reached.
type origin struct {
	stream   string
	sequence int64
}

// link is a reference on its way to be looked at.
type link struct {
	ref  cas.Ref
	from origin
	path string
	// index is the message wanted of a container; -1 for none.
	index int
}

func at(path string, index int) string { return path + "[" + strconv.Itoa(index) + "]" }
