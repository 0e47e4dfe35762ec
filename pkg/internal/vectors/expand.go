package vectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxExpanded bounds one expanded string, so that a slip in a vector cannot take the machine's memory.
const maxExpanded = 256 << 20

// objectKeys are the keys whose value is an object of any shape: such a value is never itself a long string, though
// strings inside it may be.
var objectKeys = map[string]bool{"arguments": true, "parameters": true, "payload": true, "sampling": true,
	"requestSampling": true, "want": true, "details": true}

// Expand replaces every object of exactly the form {"repeat": string, "times": n}, n >= 0, by the string repeated n
// times. Everything else is kept byte for byte.
func Expand(raw json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(raw) {
		return nil, errors.New("not valid JSON")
	}
	if !bytes.Contains(raw, []byte(`"repeat"`)) {
		return raw, nil
	}
	return appendExpanded(nil, raw, true)
}

// appendExpanded appends the expanded form of one valid JSON value.
func appendExpanded(dst []byte, raw json.RawMessage, mayBeString bool) ([]byte, error) {
	raw = bytes.TrimSpace(raw)
	switch raw[0] {
	case '{':
		members, err := split(raw)
		if err != nil {
			return nil, err
		}
		if mayBeString && isRepeat(members) {
			return appendRepeat(dst, members)
		}
		return appendObject(dst, members)
	case '[':
		var elements []json.RawMessage
		if err := json.Unmarshal(raw, &elements); err != nil {
			return nil, err
		}
		return appendArray(dst, elements)
	}
	return append(dst, raw...), nil
}

func appendObject(dst []byte, members []member) ([]byte, error) {
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, m.rawKey...), ':')
		var err error
		if dst, err = appendExpanded(dst, m.value, !objectKeys[m.key]); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendArray(dst []byte, elements []json.RawMessage) ([]byte, error) {
	dst = append(dst, '[')
	for i, e := range elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendExpanded(dst, e, true); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func isRepeat(members []member) bool {
	if len(members) != 2 {
		return false
	}
	a, b := members[0].key, members[1].key
	return a == "repeat" && b == "times" || a == "times" && b == "repeat"
}

// appendRepeat writes the raw inner text of the string literal the given number of times, so that its escapes stay.
func appendRepeat(dst []byte, members []member) ([]byte, error) {
	var text json.RawMessage
	var times int
	for _, m := range members {
		if m.key == "repeat" {
			text = bytes.TrimSpace(m.value)
			continue
		}
		if err := json.Unmarshal(m.value, &times); err != nil {
			return nil, fmt.Errorf("times: %w", err)
		}
	}
	if text[0] != '"' || times < 0 {
		return nil, errors.New(`{"repeat","times"} takes a string and a count of zero or more`)
	}
	inner := string(text[1 : len(text)-1])
	if times > 0 && len(inner) > maxExpanded/times {
		return nil, errors.New("expanded string is too long")
	}
	dst = append(dst, '"')
	dst = append(dst, strings.Repeat(inner, times)...)
	return append(dst, '"'), nil
}

// member is one key and value of an object, in the order of the text; rawKey is the key with its quotes and escapes.
type member struct {
	key    string
	rawKey []byte
	value  json.RawMessage
}

// split returns the members of a JSON object, duplicates included.
func split(raw json.RawMessage) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var members []member
	for dec.More() {
		start := dec.InputOffset()
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		rawKey := bytes.TrimLeft(raw[start:dec.InputOffset()], ", \t\r\n")
		key, _ := token.(string) // the keys of valid JSON are strings
		m := member{key: key, rawKey: rawKey}
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	return members, nil
}
