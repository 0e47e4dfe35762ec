package trajectory

import (
	"bytes"
	"regexp"
	"strings"
)

// suspicious says whether a JSON string could hold one of the forms below. It is what most strings fail at once.
func suspicious(raw []byte) bool {
	return bytes.ContainsAny(raw, "=:\\ ") && len(raw) > 5
}

var (
	// bearer is the whole value of an Authorization header.
	bearer     = regexp.MustCompile(`^(?i:bearer|basic|token)\s+[A-Za-z0-9._~+/=-]{8,}$`)
	privateKey = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
	urlScheme  = regexp.MustCompile(`^(?:jdbc:)?[A-Za-z][A-Za-z0-9+.-]*://`)
)

// querySecrets are names that are credentials in the query of a URL only.
var querySecrets = set("sig", "signature", "xamzsignature", "code")

// redactString takes the credentials out of a string whose whole form shows them.
func redactString(s string) string {
	switch {
	case bearer.MatchString(s), privateKey.MatchString(s):
		return Redacted
	case urlScheme.MatchString(s) && !strings.ContainsAny(s, " \t\r\n"):
		return redactURL(s)
	}
	return redactPairs(s)
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
	if mark := strings.IndexByte(rest, '?'); mark >= 0 {
		rest = rest[:mark+1] + redactQuery(rest[mark+1:])
	}
	if semicolon := strings.IndexByte(rest, ';'); semicolon >= 0 {
		rest = rest[:semicolon+1] + redactSegments(rest[semicolon+1:], ";")
	}
	return s[:start] + authority + rest
}

func redactQuery(query string) string {
	query, fragment, cut := strings.Cut(query, "#")
	params := strings.Split(query, "&")
	for i, param := range params {
		name, value, ok := strings.Cut(param, "=")
		if ok && value != "" && (isSecretName(name) || querySecrets[strings.Join(wordsOf(name), "")]) {
			params[i] = name + "=" + Redacted
		}
	}
	query = strings.Join(params, "&")
	if cut {
		query += "#" + fragment
	}
	return query
}

// isSecretName says whether a name in a pair is that of a credential.
func isSecretName(name string) bool {
	switch classOf(strings.TrimSpace(name)) {
	case nameSecret, nameSecretPath:
		return true
	}
	return false
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
	for _, segment := range segments(s, separator) {
		name, _, ok := strings.Cut(segment, "=")
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
		if ok && strings.TrimSpace(value) != "" && isSecretName(name) {
			parts[i] = name + "=" + Redacted
		}
	}
	return strings.Join(parts, separator)
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
	if !ok || strings.TrimSpace(value) == "" || strings.ContainsAny(strings.TrimSpace(name), " \t") || classOf(name) != nameSecret {
		return s
	}
	return name + ": " + Redacted
}
