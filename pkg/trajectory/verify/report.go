package verify

import "fmt"

// Code names what is wrong with an export.
type Code string

// The codes.
const (
	CodeEmpty     Code = "empty"
	CodeFormat    Code = "otherFormat"
	CodeVersion   Code = "otherVersion"
	CodeJSON      Code = "notJSON"
	CodeCut       Code = "cutLine"
	CodeType      Code = "wrongType"
	CodeIndex     Code = "contradictoryIndex"
	CodeOrder     Code = "wrongOrder"
	CodeUnlisted  Code = "unlistedEntry"
	CodeTwice     Code = "duplicateEntry"
	CodeDiffers   Code = "entryDiffers"
	CodeReference Code = "unknownReference"
	CodeMissing   Code = "missingEntries"
	CodeCount     Code = "wrongCount"
	CodeChecksum  Code = "wrongChecksum"
	CodeEnd       Code = "noEnd"
	CodeAfter     Code = "afterTheEnd"
)

// advice says what to do about a problem.
var advice = map[Code]string{
	CodeEmpty:     "Download it again, and look at the answer's status and at the viewer's log.",
	CodeFormat:    "Only NDJSON exports can be checked: download one with format=ndjson.",
	CodeVersion:   "Use a manager that is as new as the viewer that made the export.",
	CodeJSON:      "The file was changed or damaged after the download: download it again.",
	CodeCut:       "The download was broken off: download it again.",
	CodeType:      "The file was changed, or parts of several files were joined: download it again.",
	CodeIndex:     "The first line was changed: download it again.",
	CodeOrder:     "Lines were moved, for example by sorting: download it again.",
	CodeUnlisted:  "Lines of another export were added: download it again.",
	CodeTwice:     "Lines were repeated, for example by joining two downloads: download it again.",
	CodeDiffers:   "The line or the index was edited: do not rely on this file.",
	CodeReference: "The line or the index was edited: do not rely on this file.",
	CodeMissing:   "The file does not have all evidence: download it again.",
	CodeCount:     "Lines were removed or added: download it again.",
	CodeChecksum:  "The file was changed after it was made: do not rely on it, download it again.",
	CodeEnd:       "The download was broken off, so the file is not complete: download it again.",
	CodeAfter:     "Something was appended: download it again.",
}

// Problem is one thing that is wrong. Line counts from 1; it is 0 when no line is to blame.
type Problem struct {
	Line    int    `json:"line,omitempty"`
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Advice  string `json:"advice"`
}

// Report is what was found out about an export.
type Report struct {
	// Complete says that the export has everything and that nothing is wrong with it.
	Complete bool `json:"complete"`
	// Session is the session's id, Version that of the format, ExportedAt the time of the export in microseconds.
	Session    string `json:"session,omitempty"`
	Version    int64  `json:"version,omitempty"`
	ExportedAt int64  `json:"exportedAt,omitempty"`
	// Indexed is how many entries the first line lists, Entries how many lines of type entry there are.
	Indexed int   `json:"indexed"`
	Entries int   `json:"entries"`
	Lines   int   `json:"lines"`
	Bytes   int64 `json:"bytes"`
	// SHA256 is the digest of everything before the last line, as it was computed here.
	SHA256   string    `json:"sha256,omitempty"`
	Problems []Problem `json:"problems"`
	// MoreProblems counts those that are not listed.
	MoreProblems int `json:"moreProblems,omitempty"`
}

// maxProblems is how many problems are listed: a file that is wrong all over says no more with all of them.
const maxProblems = 20

func (r *Report) problem(line int, code Code, format string, arguments ...any) {
	if len(r.Problems) >= maxProblems {
		r.MoreProblems++
		return
	}
	r.Problems = append(r.Problems, Problem{Line: line, Code: code, Message: fmt.Sprintf(format, arguments...), Advice: advice[code]})
}
