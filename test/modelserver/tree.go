package modelserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
)

// object is a decoded JSON object; numbers stay literal (json.Number).
type object = map[string]any

func parseObject(raw []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the object")
	}
	o, ok := v.(object)
	if !ok {
		return nil, errors.New("the body is not an object")
	}
	return o, nil
}

// str returns the string at key, or "" when it is absent or of another type.
func str(o object, key string) string {
	s, _ := o[key].(string)
	return s
}

func list(o object, key string) []any {
	l, _ := o[key].([]any)
	return l
}

func obj(o object, key string) object {
	m, _ := o[key].(object)
	return m
}

func boolean(o object, key string) bool {
	b, _ := o[key].(bool)
	return b
}

// present says that the key is there with a value other than null.
func present(o object, key string) bool { return o[key] != nil }

// integer returns the number at key. ok is false when the value is no integer.
func integer(o object, key string) (n int64, ok bool) {
	num, is := o[key].(json.Number)
	if !is {
		return 0, false
	}
	if n, err := num.Int64(); err == nil {
		return n, true
	}
	f, err := num.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

func number(o object, key string) (float64, bool) {
	num, is := o[key].(json.Number)
	if !is {
		return 0, false
	}
	f, err := num.Float64()
	return f, err == nil
}

// unknownKeys returns the keys of o that are not in known, sorted.
func unknownKeys(o object, known ...[]string) []string {
	var unknown []string
	for key := range o {
		if !slices.ContainsFunc(known, func(set []string) bool { return slices.Contains(set, key) }) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// jsonKind names a JSON value's type the way the OpenAI API does.
func jsonKind(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case object:
		return "an object"
	case []any:
		return "an array"
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return "an integer"
		}
		return "a decimal"
	}
	return "an unknown value"
}

// encode writes v as compact JSON without HTML escapes. Values are built by this package or decoded from JSON, so it
// cannot fail.
func encode(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("modelserver: encode: " + err.Error())
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}
