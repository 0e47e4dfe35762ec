package cas

import (
	"fmt"
	"strings"
)

// keyVersion is the first part of every key and names the layout. A layout that reads differently gets another one.
const keyVersion = "v1"

// ScopePrefix returns the prefix of everything that is stored for one session, with a slash at its end. No other
// session's key begins with it.
func ScopePrefix(scope Scope) (string, error) {
	if err := scope.Validate(); err != nil {
		return "", err
	}
	return keyVersion + "/" + scope.Namespace + "/" + scope.Session + "/", nil
}

// ObjectsPrefix returns the prefix of the objects in a session's tree, with a slash at its end.
func ObjectsPrefix(scope Scope) (string, error) {
	prefix, err := ScopePrefix(scope)
	if err != nil {
		return "", err
	}
	tree := string(scope.Tree)
	if scope.Tree == TreeObjects {
		tree = "cas"
	}
	return prefix + tree + "/sha256/", nil
}

// Key returns the key of one object: v1/<namespace>/<session>/<tree>/sha256/<ab>/<cd>/<64 hex digits>, where the tree of
// the objects that run events name is cas. A key has no colon and is never another key's folder, so that it is a file
// name as well as an S3 key.
func Key(scope Scope, digest Digest) (string, error) {
	prefix, err := ObjectsPrefix(scope)
	if err != nil {
		return "", err
	}
	if digest.IsZero() {
		return "", fmt.Errorf("%w: key of an empty digest", ErrInvalid)
	}
	return prefix + digest.hex[:2] + "/" + digest.hex[2:4] + "/" + digest.hex, nil
}

// ParseObjectKey returns the digest that a key below ObjectsPrefix names; rest is the key without that prefix. It says
// false for whatever is not an object, which is then somebody else's and left alone.
func ParseObjectKey(rest string) (Digest, bool) {
	parts := strings.Split(rest, "/")
	if len(parts) != 3 {
		return Digest{}, false
	}
	digest, err := ParseDigest(digestPrefix + parts[2])
	if err != nil || digest.hex[:2] != parts[0] || digest.hex[2:4] != parts[1] {
		return Digest{}, false
	}
	return digest, true
}
