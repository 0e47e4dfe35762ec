package provider

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Verdict is what an error answer means.
type Verdict struct {
	Class Class
	// Type and Code are the answer's machine words, empty when it has none that are safe to show.
	Type, Code string
	// Wait is a delay that the answer's text asks for ("try again in 20s"); 0 when it names none.
	Wait time.Duration
}

// Classify says what an error answer of any provider means. Status is the HTTP status, 0 when there was no response and
// 200 for an error that arrived inside a stream; headers are the response's (nil is fine); body is the error body or
// event, which may be cut short, be of another provider's shape, or be no JSON at all. It is pure and never fails: an
// answer that says nothing is judged by its status, and one without a status is transient.
//
// Machine words win over wording, and wording over the status, because gateways translate the status first and the text
// last. Wording about rates is looked for before wording about size: "too many tokens per minute" is no overflow.
func Classify(api API, status int, headers map[string][]string, body []byte) Verdict {
	words := readErrorBody(body)
	words.addHeader(headers)
	if code, err := strconv.Atoi(words.code); err == nil && status < 300 && code >= 400 && code < 600 {
		status = code // vLLM and some gateways put the status into the event
	}
	v := Verdict{Type: safeWord(words.kind), Code: safeWord(words.code), Wait: waitInText(words.text)}
	v.Class = words.class(api, status)
	return v
}

func (w errorWords) class(api API, status int) Class {
	for _, word := range w.all() {
		if class, ok := strongWords[normalWord(word)]; ok {
			return class
		}
	}
	if class := classOfText(status, w.text); class != "" {
		return class
	}
	if class := classOfStatus(status); class != "" {
		return class
	}
	for _, word := range w.all() {
		if isInvalidWord(api, normalWord(word)) {
			return ClassInvalidRequest
		}
	}
	return ClassTransient
}

// strongWords are machine words that mean one thing whatever the status. Keys are in the form of normalWord.
var strongWords = map[string]Class{
	"insufficientquota": ClassQuota, "billinghardlimitreached": ClassQuota, "billingerror": ClassQuota,
	"contractspendlimitreached": ClassQuota, "enforcedspendlimitreached": ClassQuota,
	"linkedorganizationspendlimitreached": ClassQuota, "linkedorganizationbillingunavailable": ClassQuota,
	"userprofilenotbillable": ClassQuota, "userprofilebillingnotauthorized": ClassQuota,
	"exceededcurrentquotaerror": ClassQuota, "insufficientbalance": ClassQuota, "insufficientcredits": ClassQuota,
	"budgetexceeded": ClassQuota,

	"contextlengthexceeded": ClassOverflow, "requesttoolarge": ClassOverflow,
	"modelcontextwindowexceeded": ClassOverflow, "contextwindowexceedederror": ClassOverflow,
	"exceedcontextsizeerror": ClassOverflow, "requestbodytoolargeafterdecoding": ClassOverflow,
	"contextwindowexceeded": ClassOverflow,

	"authenticationerror": ClassAuth, "permissionerror": ClassAuth, "permissiondeniederror": ClassAuth,
	"invalidapikey": ClassAuth, "incorrectapikey": ClassAuth, "invalidauthentication": ClassAuth,
	"invalidauthenticationerror": ClassAuth, "unauthenticated": ClassAuth, "unauthorized": ClassAuth,
	"permissiondenied": ClassAuth, "accessdeniedexception": ClassAuth, "unrecognizedclientexception": ClassAuth,
	"expiredtokenexception": ClassAuth, "accountdeactivated": ClassAuth, "organizationonhold": ClassAuth,

	"ratelimiterror": ClassRateLimited, "ratelimitexceeded": ClassRateLimited, "ratelimitreachederror": ClassRateLimited,
	"toomanyrequests": ClassRateLimited, "throttlingexception": ClassRateLimited, "throttling": ClassRateLimited,
	"resourceexhausted": ClassRateLimited, "ramplimitexceeded": ClassRateLimited, "toomanyrequestsexception": ClassRateLimited,

	"overloadederror": ClassOverloaded, "engineoverloadederror": ClassOverloaded, "engineoverloaded": ClassOverloaded,
	"serveroverloaded": ClassOverloaded, "modeloverloaded": ClassOverloaded, "serverisoverloaded": ClassOverloaded,
	"serviceunavailable": ClassOverloaded, "serviceunavailableexception": ClassOverloaded,
	"serviceunavailableerror": ClassOverloaded, "slowdown": ClassOverloaded, "unavailable": ClassOverloaded,
	"compactionunavailable": ClassOverloaded, "insufficientsystemresource": ClassOverloaded,
	"modelnotreadyexception": ClassOverloaded,

	"contentfilter": ClassRefused, "contentpolicyviolation": ClassRefused, "contentpolicyviolationerror": ClassRefused,
	"invalidprompt": ClassRefused, "biopolicy": ClassRefused, "misalignmentpolicyviolation": ClassRefused,
	"imagecontentpolicyviolation": ClassRefused, "cyberpolicyviolation": ClassRefused, "cyberpolicy": ClassRefused,
}

// isInvalidWord says whether a machine word blames the request. It is asked only about errors whose status says nothing.
func isInvalidWord(api API, word string) bool {
	if api == APIOpenAIResponses && strings.Contains(word, "image") {
		return true // the codes of a failed response: image_too_large, failed_to_download_image, …
	}
	for _, prefix := range []string{"invalid", "unsupported", "badrequest", "validation", "unprocessable", "missing"} {
		if strings.HasPrefix(word, prefix) {
			return true
		}
	}
	return strings.Contains(word, "notfound")
}

func classOfStatus(status int) Class {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return ClassAuth
	case http.StatusPaymentRequired:
		return ClassQuota
	case http.StatusRequestEntityTooLarge:
		return ClassOverflow
	case http.StatusTooManyRequests:
		return ClassRateLimited
	case http.StatusServiceUnavailable, 529:
		return ClassOverloaded
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, 499:
		return ClassTransient
	}
	switch {
	case status >= 500:
		return ClassTransient
	case status >= 300:
		return ClassInvalidRequest // a redirect is a wrong base URL: it is never followed
	}
	return ""
}

// Wordings seen from the providers and servers that docs/spec/models.md lists. All are matched against lower case.
var (
	quotaText = regexp.MustCompile(`credit balance is too low|insufficient (?:balance|credits?|funds|quota)|` +
		`exceeded your current quota|(?:spend|spending|billing) limit|out of credits|payment required`)
	throttleText = regexp.MustCompile(`rate[ _-]?limit|too many requests|throttl|too many tokens[^.]{0,20}wait|` +
		`(?:tokens?|requests?) per (?:min|sec|hour|day)|per[ -]minute|per min\b|\b[tr]p[md]\b|request rate|` +
		`concurren(?:t|cy) (?:requests?|limit)|resource (?:has been )?exhausted`)
	overflowText = regexp.MustCompile(`prompt (?:is )?too long|input (?:text )?(?:is )?too (?:long|large)|` +
		`conversation (?:is )?too long|input length and .?max_tokens.? exceed|` +
		`exceed(?:s|ed|ing)? (?:the )?(?:model'?s? )?(?:available |maximum |max )?context(?:[ _](?:window|length|limit|size)|\b)|` +
		`max(?:imum)? context (?:length|window|size)|max(?:imum)? (?:prompt|input) length|` +
		`context[ _](?:length|window|size|limit)[ _]?(?:is |was |has been )?exceed|context window (?:is full|limit)|` +
		`(?:input|prompt) tokens?(?: count)?[^.]{0,60}(?:exceed|greater than|larger than)|` +
		`number of (?:input|prompt) tokens[^.]{0,40}(?:exceed|greater|larger)|too many (?:input|prompt) tokens|` +
		`too large for model with \d+ maximum|exceeded model token limit|reduce the length of (?:the|your) (?:messages|prompt|input)|` +
		`range of input length should be|prompt exceeds max|greater than the context length|` +
		`.?inputs?.? tokens \+ .?max_new_tokens|tokens in the prompt (?:cannot|can not|must not) exceed|` +
		`request[ _]too[ _]large|request exceeds the maximum size|input tokens exceeded`)
	overloadText = regexp.MustCompile(`overloaded|over capacity|at capacity|no capacity|server is busy|high demand`)
)

// classOfText judges by wording; empty when the wording says nothing.
func classOfText(status int, text string) Class {
	if text == "" || status == http.StatusUnauthorized {
		return ""
	}
	rejected := status < 500 // also without a status, and inside a stream
	switch {
	case quotaText.MatchString(text) && rejected:
		return ClassQuota
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == 529:
		return "" // the status is right and the text may speak of sizes
	case throttleText.MatchString(text):
		return ClassRateLimited
	case status == http.StatusForbidden:
		return ""
	case overflowText.MatchString(text):
		return ClassOverflow
	case overloadText.MatchString(text) && (status < 300 || status >= 500):
		return ClassOverloaded
	}
	return ""
}

var waitText = regexp.MustCompile(`(?:try|retry)(?:ing)?(?: again)? (?:in|after) ((?:\d+(?:\.\d+)?(?:h|ms|m|s))+|` +
	`\d+(?:\.\d+)? ?(?:s|sec|second|ms|millisecond|m|min|minute)s?)\b|"retrydelay": ?"(\d+(?:\.\d+)?s)"`)

// waitInText finds a delay in an error's text, which is lower case.
func waitInText(text string) time.Duration {
	found := waitText.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	span := found[1] + found[2]
	if d, err := time.ParseDuration(span); err == nil {
		return max(0, d)
	}
	number := strings.TrimRight(span, "abcdefghijklmnopqrstuvwxyz ")
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	unit := time.Second
	switch rest := strings.TrimSpace(span[len(number):]); {
	case strings.HasPrefix(rest, "ms"), strings.HasPrefix(rest, "milli"):
		unit = time.Millisecond
	case strings.HasPrefix(rest, "m"):
		unit = time.Minute
	}
	return boundedWait(n * float64(unit))
}
