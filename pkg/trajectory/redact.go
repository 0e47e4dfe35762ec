package trajectory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	var room [64]byte
	quoted := message.AppendString(room[:0], name)
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
	// modeReference: a credential unless it is an object that says which one.
	modeReference
	// modeRawHeaders: names and values of headers stand in turn.
	modeRawHeaders
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
	// nested is how many documents this one is within, as a string.
	nested int
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
	if m == modeReference {
		m = modeSecret
		if r.refers() {
			m = modePlain
		}
	}
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
		now = r.formed(now)
	}
	r.rewrite(end, was, now)
}

// rewrite copies the string that ends at end, or writes what it becomes.
func (r *redactor) rewrite(end int, was, now string) {
	if now == was {
		r.copyTo(end)
		return
	}
	r.out = message.AppendString(r.out, now)
	r.at = end
}

// maxNested is how many documents may be within each other as strings.
const maxNested = 8

// formed is redactString for a string that may be a document in itself.
func (r *redactor) formed(s string) string {
	trimmed := strings.Trim(s, " \t\r\n")
	if trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' || !json.Valid([]byte(trimmed)) {
		return redactString(s)
	}
	if r.nested >= maxNested {
		return Redacted
	}
	inner := redactor{src: []byte(s), out: make([]byte, 0, len(s)), nested: r.nested + 1}
	if inner.value(modePlain, 0) != nil {
		return Redacted
	}
	inner.space()
	return string(inner.out)
}

func (r *redactor) array(m mode, depth int) error {
	r.copyTo(r.at + 1)
	var next follow
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
		now := next
		next = r.follows(m, i)
		switch {
		case now == followSecret && (m != modePlain || r.src[r.at] == '"' && r.src[r.at+1] != '-'):
			r.hide()
			continue
		case now == followUser && r.src[r.at] == '"':
			end := r.quoted()
			was := unquote(r.src[r.at:end])
			r.rewrite(end, was, redactUser(was))
			continue
		}
		if err := r.value(inside(m), depth+1); err != nil {
			return err
		}
	}
}

// follow is what an element of an array says about the next one.
type follow int

const (
	followNothing follow = iota
	// followSecret: it is a credential.
	followSecret
	// followUser: it is a user's name with a password.
	followUser
)

// follows looks at the element that comes, the one of number i: the name of a header, or a flag of a command line.
func (r *redactor) follows(m mode, i int) follow {
	if r.src[r.at] != '"' {
		return followNothing
	}
	switch {
	case m == modeHeaders && i == 0, m == modeRawHeaders && i%2 == 0:
		name := unquote(r.src[r.at:r.quoted()])
		if !strings.ContainsAny(name, ": ") && classOf(name).credential() {
			return followSecret
		}
	case m == modePlain && r.src[r.at+1] == '-':
		flag := unquote(r.src[r.at:r.quoted()])
		if flag == "-u" || flag == "--user" || flag == "--proxy-user" {
			return followUser
		}
		if !strings.ContainsAny(flag, "=: ") && classOf(flag).credential() {
			return followSecret
		}
	}
	return followNothing
}

// inside is what an array's place says about its elements.
func inside(m mode) mode {
	switch m {
	case modeProse, modeHeaders, modeSecretSchema:
		return m
	}
	return modePlain
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
		if class == nameSecretWord || class.credential() {
			return modeSecretSchema
		}
		return modePlain
	}
	switch class {
	case nameSecret:
		return modeSecret
	case nameSecretObject:
		return modeReference
	case nameSecretWord:
		return modeWord
	case nameSecretShort:
		if first == '"' {
			return modeSecret
		}
		return modePlain
	case nameRawHeaders:
		return modeRawHeaders
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
