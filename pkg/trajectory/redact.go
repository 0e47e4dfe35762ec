package trajectory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/agentloop/agentloop/pkg/message"
)

// Redacted stands in the place of a credential.
const Redacted = "[redacted]"

// ErrNotJSON is returned by Redact for bytes that are no JSON value: nothing of them may leave.
var ErrNotJSON = errors.New("not a JSON value")

// maxDepth is how deep a document may be nested.
const maxDepth = 10000

// Redact returns a JSON document with its structured credentials replaced by Redacted: fields whose name says that they
// hold one, headers and environment entries of such names, user information in URLs, connection strings with a password,
// and private keys. Everything else is copied byte for byte, numbers and the order of keys included. Strings that are
// prose (message text, reasoning, descriptions) are left as they are. raw is not changed.
func Redact(raw []byte) ([]byte, error) {
	if !json.Valid(raw) {
		return nil, ErrNotJSON
	}
	return redact(raw)
}

// redact is Redact for bytes that are known to be a JSON value.
func redact(raw []byte) ([]byte, error) {
	return redactInto(nil, raw, modePlain)
}

// redactMember is redact for the value of an object's member.
func redactMember(name string, raw []byte) ([]byte, error) {
	return redactInto(nil, raw, modeOf(name, raw))
}

// modeOf is what the name of a document's member says about its value.
func modeOf(name string, value []byte) mode {
	quoted := message.AppendString(nil, name)
	return memberMode(modePlain, classOfQuoted(quoted), quoted, value[0])
}

// redactInto appends the redacted value to out.
func redactInto(out, raw []byte, m mode) ([]byte, error) {
	r := redactor{src: raw, out: slices.Grow(out, len(raw))}
	if err := r.value(m, 0); err != nil {
		return nil, err
	}
	r.space()
	return r.out, nil
}

// mode is what the place of a value says about it.
type mode int

const (
	modePlain mode = iota
	// modeProse: strings are text for people or models.
	modeProse
	// modeSecret: the value is a credential.
	modeSecret
	// modeWord: a string is a credential, anything else is looked into.
	modeWord
	// modePath: a credential unless it is a path.
	modePath
	// modeHeaders: strings are header lines, arrays of two are name and value.
	modeHeaders
	// modeSchemas: the members are JSON Schemas by property name.
	modeSchemas
	// modeSecretSchema: the JSON Schema of a credential, whose examples are credentials.
	modeSecretSchema
)

// redactor copies a valid document from src to out.
type redactor struct {
	src []byte
	at  int
	out []byte
}

func (r *redactor) space() {
	for r.at < len(r.src) {
		switch r.src[r.at] {
		case ' ', '\t', '\r', '\n':
			r.out = append(r.out, r.src[r.at])
			r.at++
		default:
			return
		}
	}
}

func (r *redactor) value(m mode, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: nested too deeply", ErrNotJSON)
	}
	r.space()
	c := r.src[r.at]
	if m == modeSecret && c != 'n' && c != 't' && c != 'f' {
		r.hide()
		return nil
	}
	switch c {
	case '{':
		return r.object(m, depth)
	case '[':
		return r.array(m, depth)
	case '"':
		r.text(m)
	default:
		r.copyTo(r.literal())
	}
	return nil
}

// hide writes Redacted for the value that follows. An empty string says that there is no credential, and stays.
func (r *redactor) hide() {
	begin := r.at
	r.skip()
	if string(r.src[begin:r.at]) == `""` {
		r.out = append(r.out, `""`...)
		return
	}
	r.out = append(r.out, `"`+Redacted+`"`...)
}

// skip passes over a value.
func (r *redactor) skip() {
	switch r.src[r.at] {
	case '"':
		r.at = r.quoted()
	case '{', '[':
		depth := 0
		for {
			switch r.src[r.at] {
			case '"':
				r.at = r.quoted()
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			r.at++
			if depth == 0 {
				return
			}
		}
	default:
		r.at = r.literal()
	}
}

// quoted is the position after the string that begins here.
func (r *redactor) quoted() int {
	for i := r.at + 1; ; i++ {
		switch r.src[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// literal is the position after the number or word that begins here.
func (r *redactor) literal() int {
	i := r.at
	for i < len(r.src) && bytes.IndexByte([]byte(" \t\r\n,]}"), r.src[i]) < 0 {
		i++
	}
	return i
}

func (r *redactor) copyTo(end int) {
	r.out = append(r.out, r.src[r.at:end]...)
	r.at = end
}

// unquote is the text of the JSON string in raw.
func unquote(raw []byte) string {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	_ = json.Unmarshal(raw, &s) // the document was valid
	return s
}

// text copies a string, without the credentials that its form shows.
func (r *redactor) text(m mode) {
	end := r.quoted()
	raw := r.src[r.at:end]
	if m == modeWord && len(raw) > 2 || m == modePath && len(raw) > 2 && raw[1] != '/' && raw[1] != '.' && raw[1] != '~' {
		r.hide()
		return
	}
	if m == modeProse || !suspicious(raw) {
		r.copyTo(end)
		return
	}
	was := unquote(raw)
	now := was
	if m == modeHeaders {
		now = redactHeaderLine(now)
	}
	if now == was {
		now = redactString(now)
	}
	if now == was {
		r.copyTo(end)
		return
	}
	r.out = message.AppendString(r.out, now)
	r.at = end
}

func (r *redactor) array(m mode, depth int) error {
	r.copyTo(r.at + 1)
	hideNext := false
	for i := 0; ; i++ {
		r.space()
		switch r.src[r.at] {
		case ']':
			r.copyTo(r.at + 1)
			return nil
		case ',':
			r.copyTo(r.at + 1)
			r.space()
		}
		if hideNext {
			r.hide()
			hideNext = false
			continue
		}
		if m == modeHeaders && i == 0 && r.src[r.at] == '"' {
			hideNext = classOf(unquote(r.src[r.at:r.quoted()])) == nameSecret
		}
		if err := r.value(inside(m), depth+1); err != nil {
			return err
		}
	}
}

// inside is what an array's place says about its elements.
func inside(m mode) mode {
	switch m {
	case modeProse, modeHeaders, modeSecretSchema:
		return m
	}
	return modePlain
}

// member is a member of an object in out: the bytes of its value.
type member struct{ begin, end int }

// object copies an object. Some members are credentials because of what stands in another one: those are taken back
// when the object is complete.
func (r *redactor) object(m mode, depth int) error {
	r.copyTo(r.at + 1)
	var named, kindSecret bool
	var later []member
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
		switch class {
		case namePairName:
			if raw := r.src[valueAt:r.at]; raw[0] == '"' && classOf(unquote(raw)) == nameSecret {
				named = true
			}
		case nameKind:
			kindSecret = string(r.src[valueAt:r.at]) == `"Secret"`
		case namePairValue, nameData:
			later = append(later, member{begin, len(r.out)})
		}
	}
	if named || kindSecret {
		r.hideMembers(later)
	}
	r.copyTo(r.at + 1)
	return nil
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

// memberMode is what a member's name says about its value, in an object of the given mode. first is the value's first
// byte.
func memberMode(in mode, class nameClass, key []byte, first byte) mode {
	if in == modeSecretSchema {
		if schemaWords[unquote(key)] {
			return modeSecretSchema
		}
		return modeSecret
	}
	if in == modeSchemas && first == '{' {
		if class == nameSecret || class == nameSecretWord || class == nameSecretPath {
			return modeSecretSchema
		}
		return modePlain
	}
	switch class {
	case nameSecret:
		return modeSecret
	case nameSecretWord:
		return modeWord
	case nameSecretPath:
		return modePath
	case nameProse:
		return modeProse
	case nameHeaders:
		return modeHeaders
	case nameSchemas:
		return modeSchemas
	}
	return modePlain
}

// schemaWords are the members of a JSON Schema that say nothing about particular values.
var schemaWords = set("type", "description", "title", "format", "minLength", "maxLength", "pattern", "items", "required", "nullable",
	"readOnly", "writeOnly", "deprecated", "additionalProperties", "minItems", "maxItems", "uniqueItems", "minimum", "maximum",
	"properties", "anyOf", "oneOf", "allOf", "$ref", "contentEncoding", "contentMediaType")
