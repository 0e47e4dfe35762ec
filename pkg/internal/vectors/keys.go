package vectors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// checkKeys compares the keys of raw with the fields of the struct that into points to, exactly and at every depth:
// encoding/json alone takes "Name" for "name" and lets the last of two equal keys win.
func checkKeys(raw json.RawMessage, into any) error {
	t := reflect.TypeOf(into)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("decode into %T: need a pointer to a struct", into)
	}
	if !json.Valid(raw) {
		return fmt.Errorf("decode into %T: not valid JSON", into)
	}
	return checkValue(raw, t.Elem(), "")
}

func checkValue(raw json.RawMessage, t reflect.Type, path string) error {
	if t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	raw = bytes.TrimSpace(raw)
	switch t.Kind() {
	case reflect.Pointer:
		return checkValue(raw, t.Elem(), path)
	case reflect.Slice, reflect.Array:
		var elements []json.RawMessage
		if raw[0] != '[' || json.Unmarshal(raw, &elements) != nil {
			return nil //nolint:nilerr // another type: the decoder says so better
		}
		for i, e := range elements {
			if err := checkValue(e, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		if raw[0] == '{' {
			return checkStruct(raw, t, path)
		}
	}
	return nil
}

func checkStruct(raw json.RawMessage, t reflect.Type, path string) error {
	members, err := split(raw)
	if err != nil {
		return err
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.IsExported() && !f.Anonymous {
			name = f.Name
		}
		fields[name] = f.Type
	}
	delete(fields, "")
	delete(fields, "-")
	seen := map[string]bool{}
	for _, m := range members {
		field, ok := fields[m.key]
		if !ok {
			return fmt.Errorf("unknown field %q", path+"."+m.key)
		}
		if seen[m.key] {
			return fmt.Errorf("field %q given twice", path+"."+m.key)
		}
		seen[m.key] = true
		if err := checkValue(m.value, field, path+"."+m.key); err != nil {
			return err
		}
	}
	return nil
}
