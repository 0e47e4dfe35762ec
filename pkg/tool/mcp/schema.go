package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agentloop/agentloop/pkg/message"
)

const (
	// maxSchema bounds one tool's schema in bytes.
	maxSchema = 128 << 10
	// maxSchemaWork bounds the subschemas that a check visits, each reference followed: a small schema can ask for an
	// endless amount of work through references that double at each level.
	maxSchemaWork = 20_000
	// maxCheckWork bounds the same for one call, whose arguments may hold many values that each subschema is asked about.
	maxCheckWork = 20_000_000
	// maxComplaints bounds the errors of one check that the model is told.
	maxComplaints = 10
)

// combinators are refused by model providers at the root of a tool's schema.
var combinators = map[string]bool{"oneOf": true, "anyOf": true, "allOf": true, "not": true, "enum": true}

// member is one member of a JSON object, in the object's order.
type member struct {
	key   string
	value json.RawMessage
}

// declare turns a tool's input schema into parameters that every provider accepts: an object schema with properties and
// without combinators at its root. What it takes away is returned as a note for the tool's description.
func declare(schema json.RawMessage) (json.RawMessage, string, error) {
	if len(schema) > maxSchema {
		return nil, "", fmt.Errorf("its input schema is larger than %d bytes", maxSchema)
	}
	if trimmed := bytes.TrimSpace(schema); len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		schema = json.RawMessage("{}")
	}
	members, err := splitObject(schema)
	if err != nil {
		return nil, "", errors.New("its input schema is no JSON object")
	}
	var kept, moved []member
	has := map[string]json.RawMessage{}
	for _, m := range members {
		has[m.key] = m.value
		if combinators[m.key] {
			moved = append(moved, m)
			continue
		}
		kept = append(kept, m)
	}
	if kind, ok := has["type"]; ok && string(kind) != `"object"` {
		return nil, "", errors.New("its input schema is not of type object")
	}
	if _, ok := has["type"]; !ok {
		kept = append([]member{{"type", json.RawMessage(`"object"`)}}, kept...)
	}
	if _, ok := has["properties"]; !ok {
		kept = append(kept, member{"properties", json.RawMessage("{}")})
	}
	note := ""
	if len(moved) > 0 {
		note = "\n\nThe arguments must also satisfy this JSON Schema: " + string(joinObject(moved))
	}
	return joinObject(kept), note, nil
}

// splitObject returns the members of a JSON object in their order.
func splitObject(raw json.RawMessage) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	start, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if start != json.Delim('{') {
		return nil, errors.New("not an object")
	}
	var members []member
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		name, _ := key.(string) // the decoder yields strings as keys only
		members = append(members, member{name, value})
	}
	_, err = dec.Token()
	return members, err
}

// joinObject is the compact JSON of the members.
func joinObject(members []member) json.RawMessage {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = message.AppendString(out, m.key)
		out = append(out, ':')
		out = message.AppendRaw(out, m.value)
	}
	return append(out, '}')
}

// checker checks arguments against a tool's schema before they are sent. A nil checker accepts everything: the server
// checks again, so that a schema that cannot be checked here is no reason to lose the tool.
type checker struct {
	schema *jsonschema.Schema
	// work is how many subschemas a value is checked against at most.
	work int
}

// refuse loads nothing: a schema comes from a server and must not make this process read files or URLs.
type refuse struct{}

// Load implements jsonschema.URLLoader.
func (refuse) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

// newChecker returns nil for schemas that cannot be checked: with patterns that Go does not know, references to other
// documents, documents within the document, recursion, or too much work.
func newChecker(parameters json.RawMessage) *checker {
	const location = "urn:parameters"
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(parameters))
	if err != nil {
		return nil
	}
	cost := costOf(doc)
	if cost > maxSchemaWork {
		return nil
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(refuse{})
	if compiler.AddResource(location, doc) != nil {
		return nil
	}
	schema, err := compiler.Compile(location)
	if err != nil {
		return nil
	}
	return &checker{schema: schema, work: cost}
}

// complaints says what is wrong with the arguments, in the order of their places; nil when nothing is.
func (c *checker) complaints(arguments json.RawMessage) []string {
	if c == nil {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return []string{"they are no valid JSON"}
	}
	if c.work*values(value) > maxCheckWork {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(c.schema.Validate(value), &invalid) {
		return nil
	}
	var texts []string
	for _, unit := range invalid.BasicOutput().Errors {
		if unit.Error == nil {
			continue
		}
		place := unit.InstanceLocation
		if place == "" {
			place = "/"
		}
		texts = append(texts, place+": "+unit.Error.String())
	}
	sort.Strings(texts)
	if extra := len(texts) - maxComplaints; extra > 0 {
		texts = append(texts[:maxComplaints], fmt.Sprintf("and %d more", extra))
	}
	if len(texts) == 0 {
		return []string{"they do not fit the schema"}
	}
	return texts
}

// values counts what is in a JSON value, itself included.
func values(value any) int {
	total := 1
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			total += values(v)
		}
	case []any:
		for _, v := range value {
			total += values(v)
		}
	}
	return total
}

// costOf is how many subschemas one value is checked against at most, whatever it is.
func costOf(doc any) int {
	w := work{root: doc, cost: map[string]int{}}
	root, _ := doc.(map[string]any)
	dialect, _ := root["$schema"].(string)
	w.oldest = strings.Contains(dialect, "draft-04")
	total := 1
	for key, value := range root {
		if key == "$schema" || w.names(key) {
			continue // of the document itself
		}
		total = min(unaffordable, total+w.member(key, value))
	}
	return total
}

// work counts the nodes of a schema with its references followed.
type work struct {
	root any
	// oldest says that the schema is of the dialect in which an id is written without a dollar sign.
	oldest bool
	// cost is the work of each reference's target; a negative one is being counted.
	cost map[string]int
}

// unaffordable is more than any bound, with room to be added up.
const unaffordable = 1 << 30

func (w *work) of(node any) int {
	total := 1
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			total = min(unaffordable, total+w.member(key, value))
		}
	case []any:
		for _, value := range node {
			total = min(unaffordable, total+w.of(value))
		}
	}
	return total
}

// names says that the member is the name of a document: references beside and below it mean that document's definitions.
func (w *work) names(key string) bool { return key == "$id" || key == "id" && w.oldest }

// member counts one member of an object.
func (w *work) member(key string, value any) int {
	text, isText := value.(string)
	switch {
	case !isText:
		return w.of(value)
	case key == "$ref":
		return w.follow(text)
	case key == "$dynamicRef", key == "$recursiveRef", key == "$schema", w.names(key):
		return unaffordable
	}
	return 1
}

// follow counts what a reference leads to. A cycle has no bound: how deep it goes is up to the arguments.
func (w *work) follow(ref string) int {
	if cost, known := w.cost[ref]; known {
		if cost < 0 {
			return unaffordable
		}
		return cost
	}
	target, ok := w.resolve(ref)
	if !ok {
		return unaffordable
	}
	w.cost[ref] = -1
	cost := w.of(target)
	w.cost[ref] = cost
	return cost
}

// resolve finds the target of a JSON pointer into the same document.
func (w *work) resolve(ref string) (any, bool) {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok || strings.Contains(pointer, "%") {
		return nil, false
	}
	node := w.root
	for _, part := range strings.Split(pointer, "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		object, isObject := node.(map[string]any)
		if !isObject {
			return nil, false
		}
		if node, ok = object[part]; !ok {
			return nil, false
		}
	}
	return node, true
}
