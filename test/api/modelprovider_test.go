package api

import (
	"strings"
	"testing"

	"github.com/agentloop/agentloop/api/v1alpha1"
)

const smallestProvider = `
protocol: Anthropic
models: [{id: m, contextWindow: 200000, maxOutputTokens: 32000}]
`

const fullProvider = `
protocol: Anthropic
baseURL: https://models.example.com:8443/anthropic
apiKeySecretRef: {name: anthropic.key, key: api_key}
caBundle: {name: ca, key: ca.crt}
headers:
- {name: X-Team, value: "platform, one"}
- {name: X-Api-Key, secretKeyRef: {name: gateway, key: key}}
models:
- id: anthropic/claude-opus@2026:latest
  contextWindow: 1000000
  maxOutputTokens: 128000
  thinking: FixedBudget
  thinkingBudgets: {minimal: 1024, low: 2000, medium: 8000, high: 32000}
  images: true
  estimator: O200k
  calibrate: Enabled
  sampling: {temperature: "0.7", topP: "0.95", topK: 40, stop: [END], extra: [{name: service_tier, value: '"auto"'}]}
  price: {inputPerMTok: "3", outputPerMTok: "15.0", cacheReadPerMTok: "0.3", cacheWritePerMTok: "3.75"}
promptCache: "Off"
limits: {maxConcurrentRequests: 32, requestsPerMinute: 1000, inputTokensPerMinute: 400000}
retry: {maxAttempts: 3, maxDelaySeconds: 30}
requestTimeoutSeconds: 900
idleTimeoutSeconds: 60
`

// model is the smallest provider with fields added to its only model.
func model(fields string) string {
	return "models: [{id: m, contextWindow: 200000, maxOutputTokens: 32000, " + fields + "}]"
}

func TestModelProviderCreation(t *testing.T) {
	extra := func(name, value string) string {
		return model(`sampling: {extra: [{name: ` + name + `, value: '` + value + `'}]}`)
	}
	runCreations(t, v1alpha1.KindModelProvider, smallestProvider, map[string]creation{
		"the smallest provider":                       {},
		"every field set":                             {spec: fullProvider},
		"plain http inside the cluster":               {spec: "baseURL: http://vllm.models.svc:8000/v1"},
		"an address instead of a name":                {spec: "baseURL: 'http://[::1]:8000'"},
		"an output cap among the extra fields":        {spec: extra("max_tokens", "16000")},
		"the largest safe capacities":                 {spec: "models: [{id: m, contextWindow: 9007199254740991, maxOutputTokens: 9007199254740991}]"},
		"output caps off where the protocol has them": {spec: "protocol: OpenAIResponses\n" + model("outputCaps: Disabled")},
		"penalties and seed of the chat protocol":     {spec: "protocol: OpenAIChat\n" + model(`sampling: {presencePenalty: "-2", frequencyPenalty: "1.5", seed: 0}`)},

		"an unknown protocol":                {spec: "protocol: Gemini", want: `supported values: "Anthropic", "OpenAIChat", "OpenAIResponses"`},
		"no protocol":                        {spec: "protocol: null", want: "spec.protocol: Required value"},
		"an unknown field":                   {spec: "apiKey: secret", want: `unknown field "spec.apiKey"`},
		"a URL without a scheme":             {spec: "baseURL: models.example.com/v1", want: "must start with https:// or http://"},
		"a URL of another scheme":            {spec: "baseURL: ftp://models.example.com", want: "must start with https:// or http://"},
		"a URL with a password":              {spec: "baseURL: https://me:secret@models.example.com", want: "put the credential in a Secret and name it in apiKeySecretRef"},
		"a URL with a query":                 {spec: "baseURL: https://models.example.com?key=1", want: "must not hold a query or a fragment"},
		"a URL without a host":               {spec: "baseURL: 'https:///v1'", want: "must be a URL with a host"},
		"a URL that is none":                 {spec: "baseURL: 'https://[::1'", want: "must be a URL with a host"},
		"an empty URL":                       {spec: "baseURL: ''", want: "should be at least 1 chars long"},
		"a URL that is too long":             {spec: "baseURL: https://a.example/" + strings.Repeat("x", 2048), want: "Too long"},
		"a Secret reference without a key":   {spec: "apiKeySecretRef: {name: s}", want: "spec.apiKeySecretRef.key: Required value"},
		"a Secret of another namespace":      {spec: "apiKeySecretRef: {name: other/s, key: k}", want: "must be the name of a Secret in this namespace"},
		"a Secret key with a slash":          {spec: "apiKeySecretRef: {name: s, key: a/b}", want: "must be a key of the Secret's data"},
		"a ConfigMap name in capitals":       {spec: "caBundle: {name: CA, key: ca.crt}", want: "must be the name of a ConfigMap in this namespace"},
		"a header with nothing":              {spec: "headers: [{name: X-A}]", want: "set exactly one of value and secretKeyRef"},
		"a header with both":                 {spec: "headers: [{name: X-A, value: v, secretKeyRef: {name: s, key: k}}]", want: "set exactly one of value and secretKeyRef"},
		"a header with a credential in it":   {spec: "headers: [{name: Authorization, value: Bearer x}]", want: "put the value in a Secret and name it with secretKeyRef"},
		"a header that HTTP writes":          {spec: "headers: [{name: Content-Length, value: '1'}]", want: "this header is written by the HTTP client"},
		"a header name with a colon":         {spec: "headers: [{name: 'X-A:', value: v}]", want: "must be a header name"},
		"a header value on two lines":        {spec: `headers: [{name: X-A, value: "a\r\nB: c"}]`, want: "must be printable ASCII on one line"},
		"the same header twice":              {spec: "headers: [{name: X-A, value: v}, {name: X-A, value: w}]", want: "Duplicate value"},
		"no models":                          {spec: "models: []", want: "should have at least 1 items"},
		"the same model id twice":            {spec: "models: [{id: m, contextWindow: 9, maxOutputTokens: 1}, {id: m, contextWindow: 9, maxOutputTokens: 1}]", want: `Duplicate value: {"id":"m"}`},
		"a model id with a blank":            {spec: "models: [{id: 'a b', contextWindow: 9, maxOutputTokens: 1}]", want: "must be a model id"},
		"a model without a window":           {spec: "models: [{id: m, maxOutputTokens: 1}]", want: "spec.models[0].contextWindow: Required value"},
		"a model without an output maximum":  {spec: "models: [{id: m, contextWindow: 9}]", want: "spec.models[0].maxOutputTokens: Required value"},
		"a window of zero":                   {spec: "models: [{id: m, contextWindow: 0, maxOutputTokens: 1}]", want: "should be greater than or equal to 1"},
		"a window above the safe integers":   {spec: "models: [{id: m, contextWindow: 9007199254740992, maxOutputTokens: 1}]", want: "should be less than or equal to"},
		"more output than window":            {spec: "models: [{id: m, contextWindow: 1000, maxOutputTokens: 1001}]", want: "maxOutputTokens is larger than contextWindow: look both up"},
		"budgets for an adaptive model":      {spec: model("thinking: Adaptive, thinkingBudgets: {low: 2048}"), want: "thinkingBudgets needs thinking: FixedBudget"},
		"a thinking budget that is too low":  {spec: model("thinking: FixedBudget, thinkingBudgets: {low: 1000}"), want: "should be greater than or equal to 1024"},
		"empty thinking budgets":             {spec: model("thinking: FixedBudget, thinkingBudgets: {}"), want: "should have at least 1 properties"},
		"a fixed budget in another protocol": {spec: "protocol: OpenAIChat\n" + model("thinking: FixedBudget"), want: "use Adaptive for a model that reasons"},
		"output caps off in Anthropic":       {spec: model("outputCaps: Disabled"), want: "outputCaps can be Disabled only in protocol OpenAIResponses"},
		"topK in the chat protocol":          {spec: "protocol: OpenAIChat\n" + model("sampling: {topK: 4}"), want: "sampling.topK exists only in protocol Anthropic"},
		"a seed in Anthropic":                {spec: model("sampling: {seed: 4}"), want: "exist only in protocol OpenAIChat"},
		"stop texts in the Responses API":    {spec: "protocol: OpenAIResponses\n" + model("sampling: {stop: [a]}"), want: "sampling.stop does not exist in protocol OpenAIResponses"},
		"a temperature that is a number":     {spec: model("sampling: {temperature: 0.7}"), want: "must be of type string"},
		"a temperature that is too high":     {spec: model(`sampling: {temperature: "2.1"}`), want: `must be a decimal string from "0" to "2"`},
		"a temperature that is a word":       {spec: model("sampling: {temperature: hot}"), want: `must be a decimal string from "0" to "2"`},
		"a topP above one":                   {spec: model(`sampling: {topP: "1.01"}`), want: `must be a decimal string from "0" to "1"`},
		"a penalty below -2":                 {spec: "protocol: OpenAIChat\n" + model(`sampling: {presencePenalty: "-2.5"}`), want: `must be a decimal string from "-2" to "2"`},
		"an extra field of the engine's":     {spec: extra("messages", "[]"), want: "this field is written by the engine"},
		"server-side truncation":             {spec: extra("truncation", `"auto"`), want: "this field is written by the engine"},
		"an extra field with its own place":  {spec: extra("top_p", "0.5"), want: "this field has a place of its own in sampling"},
		"an extra output cap that is a text": {spec: extra("max_output_tokens", `"16000"`), want: "an output cap must be a whole number"},
		"an extra output cap of zero":        {spec: extra("max_tokens", "0"), want: "an output cap must be a whole number"},
		"an extra output cap that is unsafe": {spec: extra("max_tokens", "9007199254740992"), want: "an output cap must be a whole number"},
		"a price that is no number":          {spec: model(`price: {inputPerMTok: "3,75"}`), want: "must be a decimal number in quotes"},
		"a currency that is a sign":          {spec: model(`price: {inputPerMTok: "3", currency: $}`), want: "must be a currency code"},
		"limits without any":                 {spec: "limits: {}", want: "should have at least 1 properties"},
		"a limit of zero":                    {spec: "limits: {requestsPerMinute: 0}", want: "should be greater than or equal to 1"},
		"no attempts":                        {spec: "retry: {maxAttempts: 0}", want: "should be greater than or equal to 1"},
		"idle longer than the request":       {spec: "requestTimeoutSeconds: 60\nidleTimeoutSeconds: 61", want: "lower it, or raise requestTimeoutSeconds"},
		"a cache mode without quotes":        {spec: "promptCache: off", want: `spec.promptCache in body must be of type string: "boolean"`},
	})
}

func TestModelProviderChange(t *testing.T) {
	runChanges(t, v1alpha1.KindModelProvider, smallestProvider, map[string]change{
		"another key, another model": {after: "apiKeySecretRef: {name: next, key: k}\n" + model("thinking: Adaptive")},
		"a change to a wrong URL":    {before: "baseURL: https://a.example", after: "baseURL: a.example", want: "must start with https:// or http://"},
	})
}
