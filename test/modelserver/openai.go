package modelserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// openAIRefusal words what both OpenAI APIs refuse alike.
func openAIRefusal(why refusal, detail string) *apiError {
	switch why {
	case refuseJSON:
		return invalid("We could not parse the JSON body of your request. (HINT: This likely means you aren't using your " +
			"HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)")
	case refuseNoModel:
		return invalid("you must provide a model parameter")
	case refuseModel:
		return &apiError{status: http.StatusNotFound, kind: "invalid_request_error", code: "model_not_found",
			message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", detail)}
	case refuseNoKey:
		return &apiError{status: http.StatusUnauthorized, kind: "invalid_request_error",
			message: "You didn't provide an API key. You need to provide your API key in an Authorization header using " +
				"Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."}
	case refuseKey:
		return standard(openAIFaults, "401")
	case refuseSize:
		return &apiError{status: http.StatusRequestEntityTooLarge, kind: "invalid_request_error",
			message: "Request body is too large."}
	}
	return standard(openAIFaults, detail)
}

// checkOutputCap checks an output cap of an OpenAI API: least is the smallest that the API takes.
func checkOutputCap(c *call, body object, key string, least int64) *apiError {
	if !present(body, key) {
		return nil
	}
	n, ok := integer(body, key)
	if !ok {
		return wrongType(body[key], key, "an integer")
	}
	if n < least {
		return invalid("Invalid '%s': integer below minimum value. Expected a value >= %d, but got %d instead.", key, least, n).
			at("%s", key).coded("integer_below_min_value")
	}
	if limit := c.model.script.MaxTokens; limit > 0 && n > limit {
		return invalid("%s is too large: %d. This model supports at most %d completion tokens, whereas you provided %d.",
			key, n, limit, n).at("%s", key).coded("invalid_value")
	}
	c.maxOutput = n
	return nil
}

func wrongType(v any, param, want string) *apiError {
	return invalid("Invalid type for '%s': expected %s, but got %s instead.", param, want, jsonKind(v)).
		at("%s", param).coded("invalid_type")
}

func missing(param string) *apiError {
	return invalid("Missing required parameter: '%s'.", param).at("%s", param).coded("missing_required_parameter")
}

func unknownParameter(param string) *apiError {
	return invalid("Unknown parameter: '%s'.", param).at("%s", param).coded("unknown_parameter")
}

func invalidValue(param, value string, supported []string) *apiError {
	return invalid("Invalid value: '%s'. Supported values are: %s.", value, enumeration(supported)).
		at("%s", param).coded("invalid_value")
}

func enumeration(words []string) string {
	if len(words) == 1 {
		return "'" + words[0] + "'"
	}
	last := len(words) - 1
	comma := ","
	if last == 1 {
		comma = ""
	}
	return quoted(words[:last]) + comma + " and '" + words[last] + "'"
}

func emptyArray(param string) *apiError {
	return invalid("Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead.", param).
		at("%s", param).coded("empty_array")
}

func tooLong(param, value string, limit int) *apiError {
	return invalid("Invalid '%s': string too long. Expected a string with maximum length %d, but got a string with length %d "+
		"instead.", param, limit, len(value)).at("%s", param).coded("string_above_max_length")
}

var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

func checkEffort(param, effort string) *apiError {
	if effort == "" || slices.Contains(efforts, effort) {
		return nil
	}
	return invalidValue(param, effort, efforts)
}

// maxTools is how many tools the OpenAI APIs take.
const maxTools = 128

// checkToolList checks that tools, when given, is a list with something in it.
func checkToolList(body object) *apiError {
	if !present(body, "tools") {
		return nil
	}
	tools, ok := body["tools"].([]any)
	switch {
	case !ok:
		return wrongType(body["tools"], "tools", "an array of objects")
	case len(tools) == 0:
		return emptyArray("tools")
	case len(tools) > maxTools:
		return invalid("Invalid 'tools': array too long. Expected an array with maximum length %d, but got an array with "+
			"length %d instead.", maxTools, len(tools)).at("tools").coded("array_above_max_length")
	}
	return nil
}

// checkFunction checks a function declaration that stands at path, and counts it.
func checkFunction(c *call, fn object, path string) *apiError {
	name := str(fn, "name")
	switch {
	case name == "":
		return missing(path + ".name")
	case len(name) > 64:
		return tooLong(path+".name", name, 64)
	case !plainName(name, 64):
		return invalid("Invalid '%s.name': string does not match pattern. Expected a string that matches the pattern "+
			"'^[a-zA-Z0-9_-]+$'.", path).at("%s.name", path).coded("invalid_value")
	}
	c.inputTokens += tokensPerTool + c.valueTokens(name) + c.valueTokens(str(fn, "description")) + c.valueTokens(fn["parameters"])
	if !present(fn, "parameters") {
		return nil
	}
	schema := obj(fn, "parameters")
	if kind := str(schema, "type"); kind != "object" {
		if kind == "" {
			kind = "None"
		}
		return invalid("Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: "+
			"\"%s\"'.", name, kind).at("%s.parameters", path).coded("invalid_function_parameters")
	}
	if boolean(fn, "strict") && schema["additionalProperties"] != false {
		return invalid("Invalid schema for function '%s': In context=(), 'additionalProperties' is required to be supplied "+
			"and to be false.", name).at("%s.parameters", path).coded("invalid_function_parameters")
	}
	return nil
}

func checkTemperature(body object) *apiError {
	if !present(body, "temperature") {
		return nil
	}
	t, ok := number(body, "temperature")
	if !ok {
		return wrongType(body["temperature"], "temperature", "a decimal")
	}
	if t > 2 {
		return invalid("Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got %v instead.", t).
			at("temperature").coded("decimal_above_max_value")
	}
	if t < 0 {
		return invalid("Invalid 'temperature': decimal below minimum value. Expected a value >= 0, but got %v instead.", t).
			at("temperature").coded("decimal_below_min_value")
	}
	return nil
}

// checkImageURL checks the URL of an image part.
func checkImageURL(c *call, url, param string) *apiError {
	c.inputTokens += tokensPerImage
	if !c.model.takesImages() {
		return invalid("Invalid content type. image_url is only supported by certain models.").
			at("%s", param).coded("invalid_value")
	}
	if strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
		return nil
	}
	kind, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	if !ok || !strings.HasPrefix(url, "data:image/") || !validBase64(data) {
		return invalid("Invalid image data URL: expected a base64-encoded data URL with an image MIME type (e.g. "+
			"'data:image/png;base64,...').").at("%s", param).coded("invalid_image_url")
	}
	switch kind {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		return nil
	}
	return invalid("You uploaded an unsupported image. Please make sure your image has of one the following formats: "+
		"['png', 'jpeg', 'gif', 'webp'].").at("%s", param).coded("invalid_image_format")
}

func openAIFrame(payload any) []byte { return frame("", encode(payload)) }
