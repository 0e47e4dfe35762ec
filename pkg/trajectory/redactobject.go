package trajectory

import (
	"bytes"
	"strings"
)

// object copies an object. Some members are credentials because of what stands in another one: those are taken back
// when the object is complete.
func (r *redactor) object(m mode, depth int) error {
	r.copyTo(r.at + 1)
	var c clues
	for {
		r.space()
		if r.src[r.at] == '}' {
			break
		}
		if r.src[r.at] == ',' {
			r.copyTo(r.at + 1)
			r.space()
		}
		keyEnd := r.quoted()
		key := r.src[r.at:keyEnd]
		class := classOfQuoted(key)
		r.copyTo(keyEnd)
		r.space()
		r.copyTo(r.at + 1) // the colon
		r.space()
		begin, valueAt := len(r.out), r.at
		if err := r.value(memberMode(m, class, key, r.src[r.at]), depth+1); err != nil {
			return err
		}
		c.note(class, r.src[valueAt:r.at], member{class, begin, len(r.out)})
	}
	r.hideMembers(c.credentials())
	r.copyTo(r.at + 1)
	return nil
}

// member is a member of an object in out: the bytes of its value.
type member struct {
	class      nameClass
	begin, end int
}

// clues are what the members of an object say about each other.
type clues struct {
	// named: the value is a credential; secret: the data are those of a Kubernetes Secret; webKey: it is a JSON Web Key.
	named, secret, webKey bool
	// keyName and permissions together are of an access key.
	keyName, permissions bool
	later                []member
}

// note takes in a member: raw is its value as it was, m where it is now.
func (c *clues) note(class nameClass, raw []byte, m member) {
	switch class {
	case namePairName:
		c.named = c.named || raw[0] == '"' && classOfQuoted(raw).credential()
	case nameFlag:
		c.named = c.named || string(raw) == "true"
	case nameType:
		c.named = c.named || string(raw) == `"SecureString"`
		c.secret = c.secret || isSecretType(raw)
	case nameKind:
		c.secret = c.secret || string(raw) == `"Secret"`
	case nameKty:
		c.webKey = true
	case nameKeyName:
		c.keyName = true
	case namePermissions:
		c.permissions = true
	case namePairValue, nameData, nameJWK:
		c.later = append(c.later, m)
	}
}

// isSecretType says whether a type is that of a Kubernetes Secret. In lists of them each has no kind of its own.
func isSecretType(raw []byte) bool {
	for _, prefix := range []string{`"Opaque"`, `"kubernetes.io/`, `"bootstrap.kubernetes.io/`, `"helm.sh/release`} {
		if bytes.HasPrefix(raw, []byte(prefix)) {
			return true
		}
	}
	return false
}

// credentials are the members that turned out to be some.
func (c *clues) credentials() []member {
	values := c.named || c.secret || c.keyName && c.permissions
	if !values && !c.webKey {
		return nil
	}
	var found []member
	for _, m := range c.later {
		if m.class == nameJWK && c.webKey || m.class != nameJWK && values {
			found = append(found, m)
		}
	}
	return found
}

// hideMembers replaces values that were already written, last first.
func (r *redactor) hideMembers(members []member) {
	for i := len(members) - 1; i >= 0; i-- {
		value := r.out[members[i].begin:members[i].end]
		switch string(bytes.TrimSpace(value)) {
		case "null", "true", "false", `""`:
			continue
		}
		rest := bytes.Clone(r.out[members[i].end:])
		r.out = append(append(r.out[:members[i].begin], `"`+Redacted+`"`...), rest...)
	}
}

// referring are the members of objects that say which credential is meant, and hold none.
var referring = set("secretname", "name", "namespace", "optional", "items", "defaultmode", "key", "path", "mode", "kind", "apiversion", "uid")

// refers says whether the value that follows only says which credential is meant: an object, or a list of objects.
func (r *redactor) refers() bool {
	probe := redactor{src: r.src, at: r.at}
	return probe.referring()
}

// referring is refers of the value at hand. It moves on.
func (r *redactor) referring() bool {
	switch r.src[r.at] {
	case '[':
		for r.at++; ; {
			r.space()
			switch r.src[r.at] {
			case ']':
				return true
			case ',':
				r.at++
				continue
			}
			if r.src[r.at] != '{' || !r.referring() {
				return false
			}
		}
	case '{':
		for r.at++; ; {
			r.space()
			switch r.src[r.at] {
			case '}':
				r.at++
				return true
			case ',':
				r.at++
				continue
			}
			end := r.quoted()
			if !referring[strings.Join(wordsOf(unquote(r.src[r.at:end])), "")] {
				return false
			}
			r.at = end
			r.space()
			r.at++ // the colon
			r.space()
			r.skip()
		}
	}
	return false
}
