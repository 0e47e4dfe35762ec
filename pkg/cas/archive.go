package cas

import (
	"context"
	"fmt"
	"strings"
)

// MaxArchive is the size in bytes of the largest archive file.
const MaxArchive = 8 << 20

// Archives keeps the archive files of sessions (docs/format/archive.md) beside their objects. What the bytes are is the
// caller's matter, and so is checking them: the name of a file does not say what is in it.
//
// PutArchive returns when data is durable under name; what was there is replaced, at once and whole. GetArchive returns
// bytes that the caller owns, at most MaxArchive, or ErrNotFound. ListArchives calls fn with each name of the session in no
// particular order and stops with fn's first error. A Store that keeps archives removes them with Purge. Errors wrap
// ErrNotFound, ErrTooLarge or ErrInvalid where they apply; after any other one the same call may be repeated. The scope's
// Tree is of no account.
type Archives interface {
	PutArchive(ctx context.Context, scope Scope, name string, data []byte) error
	GetArchive(ctx context.Context, scope Scope, name string) ([]byte, error)
	ListArchives(ctx context.Context, scope Scope, fn func(name string) error) error
}

// ArchiveSuffix ends the name of every archive file.
const ArchiveSuffix = ".jsonl.zst"

// ArchivesPrefix returns the prefix of a session's archive files, with a slash at its end.
func ArchivesPrefix(scope Scope) (string, error) {
	prefix, err := ScopePrefix(scope.In(TreeObjects))
	if err != nil {
		return "", err
	}
	return prefix + "archive/", nil
}

// ArchiveKey returns the key of an archive file: v1/<namespace>/<session>/archive/<name>.
func ArchiveKey(scope Scope, name string) (string, error) {
	prefix, err := ArchivesPrefix(scope)
	if err != nil {
		return "", err
	}
	if !IsArchiveName(name) {
		return "", fmt.Errorf("%w: archive name %.80q", ErrInvalid, name)
	}
	return prefix + name, nil
}

// IsArchiveName says whether name is one that archive files have: a DNS label, for all but the first file of a run a dot and
// a number from 2, and ArchiveSuffix.
func IsArchiveName(name string) bool {
	stem, ok := strings.CutSuffix(name, ArchiveSuffix)
	if !ok {
		return false
	}
	run, number, numbered := strings.Cut(stem, ".")
	return isLabel(run) && (!numbered || isNumber(number))
}

// isNumber says whether s is a whole number from 2 on in its one spelling.
func isNumber(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != "" && len(s) <= 9 && s[0] != '0' && s != "1"
}

// CheckArchive returns ErrTooLarge for a file that is too large to be put.
func CheckArchive(data []byte) error {
	if len(data) > MaxArchive {
		return fmt.Errorf("%w: an archive file of %d bytes, at most %d", ErrTooLarge, len(data), MaxArchive)
	}
	return nil
}
