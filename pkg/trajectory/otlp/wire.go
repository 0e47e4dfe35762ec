package otlp

import (
	"bytes"
	"encoding/json"
	"slices"
)

// The messages of OTLP as far as they are written, in its JSON mapping: ids as hex, 64-bit integers as strings, enums as numbers.

type request struct {
	ResourceSpans []resourceSpans `json:"resourceSpans"`
}

type resourceSpans struct {
	Resource   resource     `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
	SchemaURL  string       `json:"schemaUrl"`
}

type resource struct {
	Attributes []attribute `json:"attributes"`
}

type scopeSpans struct {
	Scope     scope             `json:"scope"`
	Spans     []json.RawMessage `json:"spans"`
	SchemaURL string            `json:"schemaUrl"`
}

type scope struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type span struct {
	TraceID      string      `json:"traceId"`
	SpanID       string      `json:"spanId"`
	ParentSpanID string      `json:"parentSpanId,omitempty"`
	Name         string      `json:"name"`
	Kind         int         `json:"kind"`
	Start        uint64      `json:"startTimeUnixNano,string"`
	End          uint64      `json:"endTimeUnixNano,string"`
	Attributes   []attribute `json:"attributes"`
	Events       []event     `json:"events,omitempty"`
	// DroppedEvents is how many events were left out.
	DroppedEvents uint32  `json:"droppedEventsCount,omitempty"`
	Status        *status `json:"status,omitempty"`
}

// The kinds of spans, and the status code of what failed.
const (
	kindInternal = 1
	kindClient   = 3
	codeError    = 2
)

type event struct {
	Time       uint64      `json:"timeUnixNano,string"`
	Name       string      `json:"name"`
	Attributes []attribute `json:"attributes"`
}

type status struct {
	Message string `json:"message,omitempty"`
	Code    int    `json:"code"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

// value is one of its members.
type value struct {
	String *string  `json:"stringValue,omitempty"`
	Bool   *bool    `json:"boolValue,omitempty"`
	Int    *int64   `json:"intValue,string,omitempty"`
	Double *float64 `json:"doubleValue,omitempty"`
	Array  *list    `json:"arrayValue,omitempty"`
}

type list struct {
	Values []value `json:"values"`
}

// attributes are put together one by one. What is empty was not recorded and is left out.
type attributes []attribute

func (a *attributes) add(key string, v value) { *a = append(*a, attribute{key, v}) }

func (a *attributes) text(key, text string) {
	if text != "" {
		a.add(key, value{String: &text})
	}
}

// number adds a count that is always known.
func (a *attributes) number(key string, n int64) { a.add(key, value{Int: &n}) }

// positive adds a count of which 0 means that there is none.
func (a *attributes) positive(key string, n int64) {
	if n > 0 {
		a.number(key, n)
	}
}

// count adds a count that may not have been recorded.
func (a *attributes) count(key string, n *int64) {
	if n != nil {
		a.number(key, *n)
	}
}

func (a *attributes) truth(key string, b bool) { a.add(key, value{Bool: &b}) }

func (a *attributes) seconds(key string, s float64) { a.add(key, value{Double: &s}) }

func (a *attributes) texts(key string, texts ...string) {
	values := make([]value, len(texts))
	for i := range texts {
		values[i] = value{String: &texts[i]}
	}
	a.add(key, value{Array: &list{values}})
}

// encode returns the JSON of a value in one line.
func encode(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return slices.Clip(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}
