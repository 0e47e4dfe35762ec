package trajectory

import (
	"maps"
	"strings"
	"sync/atomic"
	"unicode"
)

// nameClass is what a member's name says.
type nameClass int

const (
	namePlain nameClass = iota
	// nameSecret: the value is a credential, whatever it is.
	nameSecret
	// nameSecretWord: a string is a credential; an object describes one.
	nameSecretWord
	// nameSecretPath: a credential, or where one is, or the working directory.
	nameSecretPath
	// nameSecretShort: a string is a credential, anything else is not.
	nameSecretShort
	nameProse
	nameHeaders
	nameSchemas
	// namePairName and namePairValue are the two halves of a named value, as in lists of headers or variables.
	namePairName
	namePairValue
	// nameKind, nameType and nameData are those of a Kubernetes Secret.
	nameKind
	nameType
	nameData
	// nameSecretObject: a credential, unless what stands there only says which one.
	nameSecretObject
	// nameRawHeaders: names and values of headers in turn.
	nameRawHeaders
	// nameFlag: true says that the value beside it is a credential.
	nameFlag
	// nameKty makes an object a JSON Web Key, nameJWK are the members that are private then.
	nameKty
	nameJWK
	// nameKeyName and namePermissions make a value beside them an access key.
	nameKeyName
	namePermissions
)

func set(words ...string) map[string]bool {
	out := make(map[string]bool, len(words))
	for _, word := range words {
		out[word] = true
	}
	return out
}

var plainClasses = map[string]nameClass{
	"text": nameProse, "thinking": nameProse, "content": nameProse, "message": nameProse, "errormessage": nameProse, "summary": nameProse,
	"description": nameProse, "title": nameProse, "prompt": nameProse, "instructions": nameProse, "detail": nameProse, "reason": nameProse,
	"headers": nameHeaders, "header": nameHeaders, "httpheaders": nameHeaders, "requestheaders": nameHeaders, "responseheaders": nameHeaders,
	"properties": nameSchemas, "patternproperties": nameSchemas, "defs": nameSchemas, "definitions": nameSchemas,
	"name": namePairName, "key": namePairName, "value": namePairValue, "values": namePairValue,
	"parameterkey": namePairName, "parametername": namePairName, "parametervalue": namePairValue,
	"variablename": namePairName, "variablevalue": namePairValue, "headername": namePairName, "headervalue": namePairValue,
	"kind": nameKind, "type": nameType, "data": nameData, "stringdata": nameData,
	"secret": nameSecretObject, "secrets": nameSecretObject, "rawheaders": nameRawHeaders, "rawtrailers": nameRawHeaders,
	"sensitive": nameFlag, "secure": nameFlag, "masked": nameFlag, "issecret": nameFlag, "secretvalue": nameSecret,
	"kty": nameKty, "d": nameJWK, "p": nameJWK, "q": nameJWK, "dp": nameJWK, "dq": nameJWK, "qi": nameJWK, "k": nameJWK, "oth": nameJWK,
	"keyname": nameKeyName, "permissions": namePermissions,
}

var (
	// secretParts make a name a credential's wherever they stand in it.
	secretParts = []string{
		"password", "passwd", "passphrase", "passcode", "authorization", "credential", "privatekey", "apikey", "accesskey", "secretkey",
		"signingkey", "encryptionkey", "masterkey", "sharedkey", "presharedkey", "accountkey", "sshkey", "sessionkey", "subscriptionkey",
		"applicationkey", "unsealkey", "hmackey", "aeskey", "connectionstring", "connstr", "csrf", "xsrf", "jaasconfig", "codeverifier",
		"clientassertion", "samlresponse", "devicecode", "usercode", "mfacode", "pincode", "recoverycode", "backupcode", "securityanswer", "nkeyseed",
		"seedphrase", "mnemonic", "userpwd", "passwort", "kennwort", "contraseña", "contrasena", "motdepasse", "пароль", "密码", "パスワード",
	}
	secretWords = set("secret", "secrets", "jwt", "bearer", "otp", "totp", "cookie", "cookies", "setcookie")
	// shortWords make a string a credential when a name ends with them; numbers and truths of such names are of other things.
	shortWords = set("pass", "pw", "pin", "cvv", "cvc", "requirepass", "masterauth", "dbpass", "userpass", "rootpass")
	// keyFiles are keys in themselves, or where they are.
	keyFiles = set("clientkey", "tlskey", "serverkey")
	// harmlessEnds make a name that of something about a credential: where it is, how long it lives, what it is called.
	harmlessEnds = set("ref", "refs", "name", "names", "namespace", "url", "uri", "endpoint", "type", "count", "limit", "length", "size",
		"expires", "expiry", "expiration", "in", "at", "age", "ttl", "policy", "required", "enabled", "supported", "file", "path", "dir",
		"filename", "field", "prefix", "format", "mode", "method", "scheme", "provider", "issuer", "algorithm", "alg", "version", "usage", "budget", "interval", "period",
		"days", "hours", "minutes", "seconds", "stdin", "env")
	// wrappers may follow what a name is about without changing it.
	wrappers = set("value", "data", "string", "text", "plaintext", "b64", "base64", "hash")
	// harmlessTokens stand before "token" where it is no credential: places in lists, and the tokens of models.
	harmlessTokens = set("next", "page", "continue", "continuation", "sync", "cursor", "start", "resume", "marker", "cancellation",
		"starting", "previous", "prev", "last", "eos", "bos", "pad", "unk", "mask", "sep", "cls", "stop", "per")
	// secretTokens stand before "tokens" where those are credentials.
	secretTokens = set("access", "refresh", "auth", "api", "bearer", "session", "id", "secret")
)

// judged remembers the judgement of names, in quotes as they stand in documents: a session has few of them, and each
// very often. It is replaced as a whole, so that reading it takes no lock.
var judged atomic.Pointer[map[string]nameClass]

// maxJudged bounds the names that are remembered: they come from anywhere.
const maxJudged = 1000

// classOfQuoted is classOf of a name in quotes.
func classOfQuoted(quoted []byte) nameClass {
	known := judged.Load()
	if known != nil {
		if class, ok := (*known)[string(quoted)]; ok {
			return class
		}
	}
	class := classOf(unquote(quoted))
	if known == nil {
		judged.CompareAndSwap(nil, &map[string]nameClass{string(quoted): class})
	} else if len(*known) < maxJudged {
		next := maps.Clone(*known)
		next[string(quoted)] = class
		judged.CompareAndSwap(known, &next) // who loses asks again
	}
	return class
}

// credential says whether a value that stands beside a name of the class is one.
func (c nameClass) credential() bool {
	return c == nameSecret || c == nameSecretPath || c == nameSecretShort || c == nameSecretObject
}

// classOf judges a member's name, whatever its case and separators.
func classOf(name string) nameClass {
	words := wordsOf(name)
	squashed := strings.Join(words, "")
	if class, ok := plainClasses[squashed]; ok {
		return class
	}
	if strings.HasSuffix(squashed, "connectionstring") || strings.HasSuffix(squashed, "secretstring") {
		return nameSecret
	}
	for len(words) > 1 && wrappers[words[len(words)-1]] {
		words = words[:len(words)-1]
	}
	if len(words) == 0 || harmlessEnds[words[len(words)-1]] || words[0] == "existing" {
		return namePlain
	}
	return secretClass(words, strings.Join(words, ""))
}

func secretClass(words []string, squashed string) nameClass {
	for _, part := range secretParts {
		if strings.Contains(squashed, part) {
			return nameSecret
		}
	}
	for _, word := range words {
		if secretWords[word] {
			if last := words[len(words)-1]; last == "secrets" || last == "secret" {
				return nameSecretObject
			}
			return nameSecret
		}
	}
	last := words[len(words)-1]
	switch {
	case strings.HasSuffix(squashed, "secret"), strings.HasSuffix(squashed, "secrets"):
		return nameSecret
	case shortWords[last]:
		return nameSecretShort
	case keyFiles[squashed]:
		return nameSecretPath
	case strings.HasSuffix(last, "token"):
		before := strings.TrimSuffix(last, "token")
		if before == "" && len(words) > 1 {
			before = words[len(words)-2]
		}
		if harmlessTokens[before] {
			return namePlain
		}
		return nameSecret
	case last == "tokens" && len(words) > 1 && secretTokens[words[len(words)-2]]:
		return nameSecret
	case last == "pwd":
		return nameSecretPath
	case strings.HasSuffix(last, "auth"):
		return nameSecretWord
	}
	return namePlain
}

// wordsOf splits a name at separators and at changes of case and returns its words in lower case.
func wordsOf(name string) []string {
	var words []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	runes := []rune(name)
	for i, c := range runes {
		switch {
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			flush()
			continue
		case unicode.IsUpper(c) && i > 0 && startsWord(runes, i):
			flush()
		}
		word = append(word, c)
	}
	flush()
	return words
}

// startsWord says whether the upper-case letter at i begins a word: after a small letter, or as the last one of a run of
// capitals that a small letter follows.
func startsWord(runes []rune, i int) bool {
	return !unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])
}
