package trajectory

import (
	"bytes"
	"regexp"
	"strings"
)

// suspicious says whether a JSON string could hold one of the forms below. It is what most strings fail at once.
func suspicious(raw []byte) bool {
	return len(raw) > 5 && (bytes.ContainsAny(raw, suspiciousSigns) || tokenStart(raw[1:len(raw)-1]))
}

// suspiciousSigns are those of which each such form has one, unless it begins like a token.
const suspiciousSigns = "=:\\ "

var (
	// bearer is the whole value of an Authorization header.
	bearer     = regexp.MustCompile(`^(?i:bearer|basic|token)\s+[A-Za-z0-9._~+/=-]{8,}$`)
	privateKey = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
	urlScheme  = regexp.MustCompile(`^(?:jdbc:)?[A-Za-z][A-Za-z0-9+.-]*://`)
	webToken   = regexp.MustCompile(`^eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*$`)
	issued     = regexp.MustCompile(`^[A-Za-z0-9_.-]{20,}$`)
	// query is the query of a URL, or a form: nothing but pairs.
	query = regexp.MustCompile(`^\?[^\s=&?]+=[^\s&]*(?:&[^\s=&]+=[^\s&]*)*$|^[^\s=&?]+=[^\s&]*(?:&[^\s=&]+=[^\s&]*)+$`)
	// assignment is one name and one value, with spaces around the sign.
	assignment = regexp.MustCompile(`^\s*([A-Za-z_][\w.-]*)\s+=\s*(?:"[^"]*"|'[^']*'|[^\s"']+)\s*$`)
	// mysqlDSN and oracleDSN have a user and a password in front of an address that is no URL's.
	mysqlDSN  = regexp.MustCompile(`^([^:@/\s]+):[^\s]+@((?:[a-z0-9]+)?\([^)]*\)/\S*)$`)
	oracleDSN = regexp.MustCompile(`^(jdbc:oracle:\w+:)[^/@\s]+/[^@\s]+(@\S+)$`)
	headerSet = set("authorization", "proxyauthorization", "cookie", "setcookie", "xapikey", "apikey", "privatetoken", "xauthtoken")
)

// ageKey is what private keys of age begin with.
const ageKey = "AGE-SECRET-KEY-1"

// issuers are the beginnings that services give their tokens so that they are recognized.
var issuers = []string{
	"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xapp-", "sk-ant-", "sk-proj-",
	"sk_live_", "sk_test_", "rk_live_", "rk_test_", "AIza", "hvs.", "hvb.", "npm_", "pypi-", "dop_v1_", "shpat_", "hf_", "eyJ", ageKey,
}

// issuersBy has issuers by their first bytes.
var issuersBy = func() (by [256][]string) {
	for _, prefix := range issuers {
		by[prefix[0]] = append(by[prefix[0]], prefix)
	}
	return by
}()

// tokenStart says whether a string begins like a token that says what it is.
func tokenStart[T string | []byte](s T) bool {
	if len(s) == 0 {
		return false
	}
	for _, prefix := range issuersBy[s[0]] {
		if len(s) > len(prefix) && string(s[:len(prefix)]) == prefix {
			return true
		}
	}
	return false
}

// querySecrets are names that are credentials in the query of a URL only.
var querySecrets = set("sig", "signature", "xamzsignature", "xgoogsignature", "code")

// redactString takes the credentials out of a string whose whole form shows them. What an expression needs is looked for
// before the expression is: nearly all strings have none of it.
func redactString(s string) string {
	switch {
	case s == "" || isDigest(s):
		return s
	case isCredential(s):
		return Redacted
	}
	if whole, ok := redactAddress(s); ok {
		return whole
	}
	if name, value, ok := strings.Cut(s, ":"); ok && couldBeHeader(name) && headerSet[strings.Join(wordsOf(name), "")] && strings.TrimSpace(value) != "" {
		return redactHeaderLine(s)
	}
	if !strings.Contains(s, "=") {
		return s
	}
	if found := assignment.FindStringSubmatch(s); found != nil && isSecretName(found[1]) {
		return found[1] + " = " + Redacted
	}
	return redactPairs(s)
}

// redactAddress takes the credentials out of a URL, the query of one, or what databases take for an address; false for
// anything else.
func redactAddress(s string) (string, bool) {
	switch {
	case strings.Contains(s, "://") && urlScheme.MatchString(s) && !strings.ContainsAny(s, " \t\r\n"):
		return redactURL(s), true
	case strings.HasPrefix(s, "jdbc:oracle:") && oracleDSN.MatchString(s):
		return oracleDSN.ReplaceAllString(s, "${1}"+Redacted+"${2}"), true
	case strings.Contains(s, "=") && (s[0] == '?' || strings.Contains(s, "&")) && query.MatchString(s):
		return redactQuery(s), true
	case strings.Contains(s, "@") && strings.Contains(s, "(") && mysqlDSN.MatchString(s):
		return mysqlDSN.ReplaceAllString(s, "${1}:"+Redacted+"@${2}"), true
	}
	return s, false
}

// isCredential says whether the whole string is one, by its form.
func isCredential(s string) bool {
	switch s[0] {
	case 'b', 'B', 't', 'T':
		if bearer.MatchString(s) {
			return true
		}
	}
	if strings.HasPrefix(s, "eyJ") {
		return webToken.MatchString(s)
	}
	return strings.Contains(s, ageKey) || strings.Contains(s, "PRIVATE KEY-----") && privateKey.MatchString(s) ||
		tokenStart(s) && issued.MatchString(s)
}

// digestLength is the length of a content address: its scheme and 64 hexadecimal digits.
const digestLength = len("sha256:") + 64

// isDigest says whether the string is a content address, of which evidence is full.
func isDigest(s string) bool {
	if len(s) != digestLength || !strings.HasPrefix(s, "sha256:") {
		return false
	}
	return strings.Trim(s[len("sha256:"):], "0123456789abcdef") == ""
}

// couldBeHeader says whether a name begins like one of headerSet and is no longer.
func couldBeHeader(name string) bool {
	const longest = 40
	name = strings.TrimLeft(name, " -_.\t\r\n\"'")
	return name != "" && len(name) <= longest && strings.IndexByte("acpsxACPSX", name[0]) >= 0
}

// redactURL hides the user information of a URL and the credentials among its parameters.
func redactURL(s string) string {
	start := len(urlScheme.FindString(s))
	end := len(s)
	if i := strings.IndexAny(s[start:], "/?#"); i >= 0 {
		end = start + i
	}
	authority, rest := s[start:end], s[end:]
	host := authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		host = authority[at:]
		authority = Redacted + host
	}
	if i := strings.IndexByte(host, ';'); i >= 0 { // parameters right behind the host, as in JDBC
		cut := len(authority) - len(host) + i
		authority, rest = authority[:cut], authority[cut:]+rest
	}
	rest = redactHook(host, rest)
	if mark := strings.IndexAny(rest, "?#"); mark >= 0 {
		rest = rest[:mark+1] + redactQuery(rest[mark+1:])
	}
	if semicolon := strings.IndexByte(rest, ';'); semicolon >= 0 {
		rest = rest[:semicolon+1] + redactSegments(rest[semicolon+1:], ";")
	}
	return s[:start] + authority + rest
}

// hooks are the hosts of URLs that are credentials as a whole: whoever knows the path may post.
var hooks = []string{"hooks.slack.com", "discord.com", "discordapp.com", "webhook.office.com"}

// redactHook hides the path of such a URL.
func redactHook(host, rest string) string {
	host = strings.TrimPrefix(host, "@")
	for _, hook := range hooks {
		if (host == hook || strings.HasSuffix(host, "."+hook)) && (strings.HasPrefix(rest, "/services/") || strings.Contains(rest, "webhook")) {
			return "/" + Redacted
		}
	}
	return rest
}

// redactQuery hides the credentials among the parameters of a query, of a fragment, or of both.
func redactQuery(query string) string {
	parts := strings.SplitAfter(query, "#")
	for i, part := range parts {
		parts[i] = redactParams(part)
	}
	return strings.Join(parts, "")
}

func redactParams(query string) string {
	end := ""
	if strings.HasSuffix(query, "#") {
		query, end = query[:len(query)-1], "#"
	}
	params := strings.Split(query, "&")
	for i, param := range params {
		name, value, ok := strings.Cut(param, "=")
		if ok && value != "" && isSecretParam(strings.TrimPrefix(name, "?"), value) {
			params[i] = name + "=" + Redacted
		}
	}
	return strings.Join(params, "&") + end
}

// apiKey is what services give out as keys; shorter values of "key" are keys of something else.
var apiKey = regexp.MustCompile(`^[A-Za-z0-9_-]{20,}$`)

func isSecretParam(name, value string) bool {
	squashed := strings.Join(wordsOf(name), "")
	return isSecretName(name) || querySecrets[squashed] || squashed == "key" && apiKey.MatchString(value)
}

// isSecretName says whether a name in a pair is that of a credential.
func isSecretName(name string) bool {
	return classOf(strings.TrimSpace(name)).credential()
}

// redactPairs hides the passwords of a connection string: name=value pairs and nothing else.
func redactPairs(s string) string {
	separator := " "
	if strings.Contains(s, ";") {
		separator = ";"
	}
	if !strings.Contains(s, "=") || !onlyPairs(s, separator) {
		return s
	}
	return redactSegments(s, separator)
}

func onlyPairs(s, separator string) bool {
	for i, segment := range segments(s, separator) {
		name, _, ok := strings.Cut(segment, "=")
		if i == 0 && segment == "export" {
			continue
		}
		if strings.TrimSpace(segment) != "" && (!ok || strings.TrimSpace(name) == "" || strings.ContainsAny(name, "\n{}()<>\"'")) {
			return false
		}
	}
	return true
}

func redactSegments(s, separator string) string {
	parts := segments(s, separator)
	for i, segment := range parts {
		name, value, ok := strings.Cut(segment, "=")
		switch {
		case !ok || strings.TrimSpace(value) == "":
		case isSecretName(name):
			parts[i] = name + "=" + Redacted
		case urlScheme.MatchString(value):
			parts[i] = name + "=" + redactURL(value)
		}
	}
	return strings.Join(parts, separator)
}

// numbers is a user and a group by number.
var numbers = regexp.MustCompile(`^\d+:\d+$`)

// redactUser hides the password behind a user's name.
func redactUser(s string) string {
	name, password, ok := strings.Cut(s, ":")
	if !ok || name == "" || password == "" || numbers.MatchString(s) {
		return s
	}
	return name + ":" + Redacted
}

// segments splits at a separator that does not stand within quotes.
func segments(s, separator string) []string {
	var out []string
	var quote byte
	begin := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == separator[0]:
			out = append(out, s[begin:i])
			begin = i + 1
		}
	}
	return append(out, s[begin:])
}

// redactHeaderLine hides the value of a header line that carries a credential.
func redactHeaderLine(s string) string {
	name, value, ok := strings.Cut(s, ":")
	if !ok || strings.TrimSpace(value) == "" || strings.ContainsAny(strings.TrimSpace(name), " \t") || !classOf(name).credential() {
		return s
	}
	return name + ": " + Redacted
}
