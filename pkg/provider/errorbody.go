package provider

import (
	"encoding/json"
	"strings"
)

// errorWords are the parts of an error answer that decide its class.
type errorWords struct {
	// kind and code are the first machine words found; more holds the others.
	kind, code string
	more       []string
	// text is everything a person would read, in lower case.
	text string
}

func (w errorWords) all() []string { return append([]string{w.code, w.kind}, w.more...) }

// addHeader adds the error type that AWS puts into a header.
func (w *errorWords) addHeader(headers map[string][]string) {
	for key, values := range headers {
		if strings.EqualFold(key, "X-Amzn-Errortype") && len(values) > 0 {
			w.more = append(w.more, values[0])
			if w.kind == "" {
				w.kind = normalName(values[0])
			}
		}
	}
}

// readErrorBody reads the shapes in use: {"error":{…}} (Anthropic, OpenAI, vLLM), {"error":"text"} (Ollama),
// {"object":"error",…} (older vLLM), {"type":"error","code":…} and {"response":{"error":{…}}} (Responses),
// [{"error":{…}}] (Google), {"detail":…} (FastAPI), {"message":…} with "__type" (AWS), nested errors of gateways, and text.
func readErrorBody(body []byte) errorWords {
	var w errorWords
	var doc any
	if err := json.Unmarshal(body, &doc); err != nil {
		w.text = strings.ToLower(strings.ToValidUTF8(string(body), "\uFFFD"))
		return w
	}
	var text []string
	w.collect(doc, 0, &text)
	w.text = strings.ToLower(strings.Join(text, "\n"))
	return w
}

const maxErrorDepth = 5

// collect walks the containers that errors are nested in, outermost first, so that the innermost word wins nothing over
// a more general one but is still seen.
func (w *errorWords) collect(value any, depth int, text *[]string) {
	if depth > maxErrorDepth {
		return
	}
	switch v := value.(type) {
	case string:
		*text = append(*text, v)
		if inner, ok := jsonInText(v); ok {
			w.collect(inner, depth+1, text)
		}
	case []any:
		for _, element := range v {
			w.collect(element, depth+1, text)
		}
	case map[string]any:
		w.collectObject(v, depth, text)
	}
}

// containers are the keys under which an error or its text hides.
var containers = []string{"error", "errors", "response", "details", "detail", "metadata", "message", "msg", "raw",
	"title", "error_description", "reason"}

func (w *errorWords) collectObject(object map[string]any, depth int, text *[]string) {
	for _, key := range []string{"type", "__type", "object"} {
		if word, ok := object[key].(string); ok && isErrorType(word) {
			w.setKind(word)
		}
	}
	for _, key := range []string{"code", "error_code", "status"} {
		switch word := object[key].(type) {
		case string:
			w.setCode(word)
		case float64:
			w.setCode(json.Number(strings.TrimSuffix(formatNumber(word), ".0")).String())
		}
	}
	if delay, ok := object["retryDelay"].(string); ok {
		*text = append(*text, `"retrydelay": "`+delay+`"`)
	}
	for _, key := range containers {
		if inner, ok := object[key]; ok {
			w.collect(inner, depth+1, text)
		}
	}
}

func formatNumber(n float64) string {
	raw, err := json.Marshal(n)
	if err != nil {
		return ""
	}
	return string(raw)
}

// isErrorType leaves out what only says that this is an error, or which event carries it.
func isErrorType(word string) bool {
	switch word {
	case "", "error", "response", "response.failed", "response.incomplete", "response.error", "chat.completion.chunk",
		"invalid_type":
		return false
	}
	return true
}

func (w *errorWords) setKind(word string) {
	if w.kind == "" {
		w.kind = normalName(word)
	}
	w.more = append(w.more, word)
}

func (w *errorWords) setCode(word string) {
	switch word {
	case "", "error", "failed", "incomplete", "completed", "in_progress":
		return // the state of a response, not an error code
	}
	if w.code == "" {
		w.code = word
	}
	w.more = append(w.more, word)
}

// jsonInText finds an error object that a gateway passed on as text, as in "upstream said {\"error\":…}".
func jsonInText(text string) (any, bool) {
	start := strings.IndexByte(text, '{')
	if start < 0 || !strings.Contains(text, `"`) {
		return nil, false
	}
	var inner any
	if err := json.NewDecoder(strings.NewReader(text[start:])).Decode(&inner); err != nil {
		return nil, false
	}
	return inner, true
}

// normalName cuts the decorations of AWS error types: "com.amazon#ThrottlingException:http://…".
func normalName(word string) string {
	if i := strings.LastIndexByte(word, '#'); i >= 0 {
		word = word[i+1:]
	}
	word, _, _ = strings.Cut(word, ":")
	return word
}

// normalWord is the form of the keys of strongWords: lower case letters and digits only.
func normalWord(word string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return -1
	}, normalName(word))
}

const maxWord = 64

// safeWord returns word when it looks like a machine word: anything else might be content.
func safeWord(word string) string {
	if len(word) > maxWord {
		return ""
	}
	for _, r := range word {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.':
		default:
			return ""
		}
	}
	return word
}
