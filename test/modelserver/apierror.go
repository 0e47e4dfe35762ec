package modelserver

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
)

// apiError is a refusal before it has a protocol's shape.
type apiError struct {
	status  int
	kind    string // the error type on the wire
	code    string // OpenAI only
	param   string // OpenAI only
	message string
	// inStream says that a streamed request gets this error as an event after the response has begun.
	inStream bool
}

func invalid(format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: "invalid_request_error", message: fmt.Sprintf(format, args...)}
}

// at names the offending parameter.
func (e *apiError) at(format string, args ...any) *apiError {
	e.param = fmt.Sprintf(format, args...)
	return e
}

func (e *apiError) coded(code string) *apiError {
	e.code = code
	return e
}

// exhausted is not retryable, so that a test whose script is too short fails at once.
func exhausted(model string, used, turn int) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: "api_error", code: "script_exhausted", message: fmt.Sprintf(
		"script exhausted for model %s: %d replies used, none left that matches this request (turn %d)", model, used, turn)}
}

// anthropicBody is the error in the shape of the Messages API.
func (e *apiError) anthropicBody(requestID string) []byte {
	return encode(anthropicError{Type: "error", Error: typedMessage{e.kind, e.message}, RequestID: requestID})
}

type anthropicError struct {
	Type      string       `json:"type"`
	Error     typedMessage `json:"error"`
	RequestID string       `json:"request_id,omitempty"`
}

type typedMessage struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// openAIBody is the error in the shape of the OpenAI APIs.
func (e *apiError) openAIBody() []byte {
	return encode(struct {
		Error openAIError `json:"error"`
	}{e.openAI()})
}

type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (e *apiError) openAI() openAIError {
	return openAIError{Message: e.message, Type: e.kind, Param: nullable(e.param), Code: nullable(e.code)}
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// scripted turns a script's fault into an error, filling in what the provider says for that status.
func (f *Fault) scripted(p protocol) *apiError {
	status := f.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	e := p.refusal(refuseScripted, strconv.Itoa(status))
	if f.Type != "" {
		e.kind = f.Type
	}
	if f.Type == insufficientQuota {
		e.code = insufficientQuota
	}
	if f.Code != "" {
		e.code = f.Code
	}
	if f.Message != "" {
		e.message = f.Message
	}
	return e
}

// insufficientQuota is both type and code of the OpenAI error for a spent quota.
const insufficientQuota = "insufficient_quota"

// standard is the error that a provider sends for a status, from its table.
func standard(table map[int]standardFault, status string) *apiError {
	code, err := strconv.Atoi(status)
	if err != nil {
		code = http.StatusInternalServerError
	}
	std := table[code]
	if std.kind == "" {
		std = standardFault{kind: "api_error", message: cmp.Or(http.StatusText(code), "Error")}
	}
	return &apiError{status: code, kind: std.kind, code: std.code, message: std.message}
}

type standardFault struct{ kind, code, message string }

var anthropicFaults = map[int]standardFault{
	400: {kind: "invalid_request_error", message: "Bad request"},
	401: {kind: "authentication_error", message: "invalid x-api-key"},
	402: {kind: "billing_error", message: "Your credit balance is too low to access the Anthropic API."},
	403: {kind: "permission_error", message: "Your API key does not have permission to use the specified resource."},
	404: {kind: "not_found_error", message: "Not found"},
	413: {kind: "request_too_large", message: "Request exceeds the maximum size"},
	429: {kind: "rate_limit_error", message: "This request would exceed your organization's rate limit."},
	500: {kind: "api_error", message: "Internal server error"},
	504: {kind: "timeout_error", message: "Request timed out"},
	529: {kind: "overloaded_error", message: "Overloaded"},
}

var openAIFaults = map[int]standardFault{
	400: {kind: "invalid_request_error", message: "Bad request"},
	401: {kind: "invalid_request_error", code: "invalid_api_key", message: "Incorrect API key provided."},
	403: {kind: "invalid_request_error", message: "You are not allowed to use this model."},
	404: {kind: "invalid_request_error", message: "Not found"},
	429: {kind: "requests", code: "rate_limit_exceeded", message: "Rate limit reached for requests."},
	500: {kind: "server_error", message: "The server had an error while processing your request."},
	503: {kind: "server_error", message: "The engine is currently overloaded, please try again later."},
}
