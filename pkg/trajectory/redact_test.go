package trajectory_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/trajectory"
)

func TestRedact(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		// By name.
		"a password":                          {`{"password":"x"}`, `{"password":"[redacted]"}`},
		"whatever the case":                   {`{"PassWord":"x","APIKEY":"y"}`, `{"PassWord":"[redacted]","APIKEY":"[redacted]"}`},
		"whatever the separators":             {`{"api-key":"x","api_key":"y","api.key":"z","api key":"w","x-api-key":"v"}`, `{"api-key":"[redacted]","api_key":"[redacted]","api.key":"[redacted]","api key":"[redacted]","x-api-key":"[redacted]"}`},
		"camel case":                          {`{"clientSecret":"x","accessToken":"y","privateKey":"z"}`, `{"clientSecret":"[redacted]","accessToken":"[redacted]","privateKey":"[redacted]"}`},
		"an escaped name":                     {`{"p\u0061ssword":"x"}`, `{"p\u0061ssword":"[redacted]"}`},
		"words run together":                  {`{"dbpassword":"x","appsecret":"y","authtoken":"z"}`, `{"dbpassword":"[redacted]","appsecret":"[redacted]","authtoken":"[redacted]"}`},
		"authorization and cookies":           {`{"Authorization":"Bearer x","Proxy-Authorization":"y","Cookie":"a=b","Set-Cookie":"c=d"}`, `{"Authorization":"[redacted]","Proxy-Authorization":"[redacted]","Cookie":"[redacted]","Set-Cookie":"[redacted]"}`},
		"a token":                             {`{"token":"x","id_token":"y","tokenValue":"z"}`, `{"token":"[redacted]","id_token":"[redacted]","tokenValue":"[redacted]"}`},
		"cloud keys":                          {`{"aws_secret_access_key":"x","AccountKey":"y","AWS_SESSION_TOKEN":"z"}`, `{"aws_secret_access_key":"[redacted]","AccountKey":"[redacted]","AWS_SESSION_TOKEN":"[redacted]"}`},
		"a number":                            {`{"password":1234}`, `{"password":"[redacted]"}`},
		"an object":                           {`{"credentials":{"user":"a","pass":"b"}}`, `{"credentials":"[redacted]"}`},
		"an array":                            {`{"cookies":["a","b"],"n":1}`, `{"cookies":"[redacted]","n":1}`},
		"deep inside":                         {`[[{"a":[{"b":{"secret":"x"}}]}]]`, `[[{"a":[{"b":{"secret":"[redacted]"}}]}]]`},
		"a working directory is no password":  {`{"pwd":"/home/a","db":{"pwd":"x"}}`, `{"pwd":"/home/a","db":{"pwd":"[redacted]"}}`},
		"auth as a string and as an object":   {`{"auth":"x","basicAuth":{"user":"u","password":"p"}}`, `{"auth":"[redacted]","basicAuth":{"user":"u","password":"[redacted]"}}`},
		"nothing there":                       {`{"password":"","token":null,"secret":false}`, `{"password":"","token":null,"secret":false}`},
		"counts of tokens":                    {`{"maxTokens":10,"inputTokens":5,"tokens":3,"tokenCount":2,"token_limit":1,"max_total_tokens":9}`, `{"maxTokens":10,"inputTokens":5,"tokens":3,"tokenCount":2,"token_limit":1,"max_total_tokens":9}`},
		"places in lists":                     {`{"nextToken":"x","page_token":"y","continuationToken":"z"}`, `{"nextToken":"x","page_token":"y","continuationToken":"z"}`},
		"what is about a credential":          {`{"secretName":"a","passwordRequired":true,"tokenUrl":"b","bearerTokenSecretRef":{"name":"c","key":"d"}}`, `{"secretName":"a","passwordRequired":true,"tokenUrl":"b","bearerTokenSecretRef":{"name":"c","key":"d"}}`},
		"words that only look alike":          {`{"secretary":"a","tokenizer":"b","author":"c","keyboard":"d","monkey":"e"}`, `{"secretary":"a","tokenizer":"b","author":"c","keyboard":"d","monkey":"e"}`},
		"signatures of thinking are none":     {`{"thinkingSignature":"a","textSignature":"b"}`, `{"thinkingSignature":"a","textSignature":"b"}`},
		"a list of tokens":                    {`{"accessTokens":["a"],"stopTokens":["b"]}`, `{"accessTokens":"[redacted]","stopTokens":["b"]}`},
		"the names of this API":               {`{"toolCallId":"a","requestOutputTokenLimit":1,"systemTokens":2,"inputId":"b","cursor":"c","next":"d","prefix":"e"}`, `{"toolCallId":"a","requestOutputTokenLimit":1,"systemTokens":2,"inputId":"b","cursor":"c","next":"d","prefix":"e"}`},
		"byte for byte around":                {"{ \"a\" : 1.50e+3 ,\n\"password\" : \"x\" , \"z\":12345678901234567890 }", "{ \"a\" : 1.50e+3 ,\n\"password\" : \"[redacted]\" , \"z\":12345678901234567890 }"},
		"the same name twice":                 {`{"password":"x","password":"y"}`, `{"password":"[redacted]","password":"[redacted]"}`},
		"a name and a value":                  {`{"name":"DB_PASSWORD","value":"x"}`, `{"name":"DB_PASSWORD","value":"[redacted]"}`},
		"a value before its name":             {`[{"value":["x"],"key":"Authorization","n":1}]`, `[{"value":"[redacted]","key":"Authorization","n":1}]`},
		"a harmless name and a value":         {`{"name":"path","value":"x"}`, `{"name":"path","value":"x"}`},
		"a Secret of Kubernetes":              {`{"kind":"Secret","data":{"a":"b"},"stringData":{"c":"d"},"type":"Opaque"}`, `{"kind":"Secret","data":"[redacted]","stringData":"[redacted]","type":"Opaque"}`},
		"a ConfigMap of Kubernetes":           {`{"kind":"ConfigMap","data":{"a":"b"}}`, `{"kind":"ConfigMap","data":{"a":"b"}}`},
		"a map of headers":                    {`{"headers":{"Content-Type":"a","X-Api-Key":"b","authorization":["c"]}}`, `{"headers":{"Content-Type":"a","X-Api-Key":"[redacted]","authorization":"[redacted]"}}`},
		"lines of headers":                    {`{"headers":["Accept: a","Authorization: Bearer b"]}`, `{"headers":["Accept: a","Authorization: [redacted]"]}`},
		"pairs of headers":                    {`{"headers":[["Accept","a"],["Cookie","b"]]}`, `{"headers":[["Accept","a"],["Cookie","[redacted]"]]}`},
		"the declaration of a parameter":      {`{"properties":{"password":{"type":"string","description":"yours","default":"x"},"n":{"type":"integer"}},"required":["password"]}`, `{"properties":{"password":{"type":"string","description":"yours","default":"[redacted]"},"n":{"type":"integer"}},"required":["password"]}`},
		"a value among properties":            {`{"properties":{"password":"x","token":{"value":"y"}}}`, `{"properties":{"password":"[redacted]","token":{"value":"[redacted]"}}}`},
		"properties as data with type values": {`{"properties":{"secret":{"type":"x","raw":{"a":"b"}}}}`, `{"properties":{"secret":{"type":"x","raw":"[redacted]"}}}`},
		// By form.
		"user information in a URL":       {`{"url":"https://u:p@h/x"}`, `{"url":"https://[redacted]@h/x"}`},
		"a user name in a URL":            {`{"remote":"ssh://git@h/x"}`, `{"remote":"ssh://[redacted]@h/x"}`},
		"an at sign behind the host":      {`{"url":"https://h/@scope/x?q=a@b"}`, `{"url":"https://h/@scope/x?q=a@b"}`},
		"escaped slashes":                 {`{"url":"https:\/\/u:p@h"}`, `{"url":"https://[redacted]@h"}`},
		"a credential in a query":         {`{"url":"https://h/x?a=1&access_token=b&sig=c#f"}`, `{"url":"https://h/x?a=1&access_token=[redacted]&sig=[redacted]#f"}`},
		"a connection string":             {`{"dsn":"Server=h;User Id=u;Password=p;"}`, `{"dsn":"Server=h;User Id=u;Password=[redacted];"}`},
		"a connection string with spaces": {`{"dsn":"host=h user=u password='a b' dbname=d"}`, `{"dsn":"host=h user=u password=[redacted] dbname=d"}`},
		"a connection URL":                {`{"db":"postgres://u:p@h:5432/d?sslmode=require"}`, `{"db":"postgres://[redacted]@h:5432/d?sslmode=require"}`},
		"JDBC":                            {`{"db":"jdbc:sqlserver://h:1433;user=u;password=p"}`, `{"db":"jdbc:sqlserver://h:1433;user=u;password=[redacted]"}`},
		"an environment entry":            {`{"env":["A=1","DB_PASSWORD=x"]}`, `{"env":["A=1","DB_PASSWORD=[redacted]"]}`},
		"the value of a header":           {`{"h":"Bearer abcdefgh.ijk"}`, `{"h":"[redacted]"}`},
		"a private key":                   {`{"pem":"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----"}`, `{"pem":"[redacted]"}`},
		"a certificate":                   {`{"pem":"-----BEGIN CERTIFICATE-----\nabc"}`, `{"pem":"-----BEGIN CERTIFICATE-----\nabc"}`},
		// Prose.
		"text of a message":             {`{"type":"text","text":"the password=x and https://u:p@h"}`, `{"type":"text","text":"the password=x and https://u:p@h"}`},
		"content that is one URL":       {`{"role":"user","content":"https://u:p@h"}`, `{"role":"user","content":"https://u:p@h"}`},
		"reasoning":                     {`{"thinking":"Bearer abcdefgh"}`, `{"thinking":"Bearer abcdefgh"}`},
		"a sentence with an equal sign": {`{"query":"where is password=x set?"}`, `{"query":"where is password=x set?"}`},
		"a shell command":               {`{"command":"export PASSWORD=x && run"}`, `{"command":"export PASSWORD=x && run"}`},
		"blocks within content":         {`{"content":[{"type":"toolCall","arguments":{"password":"x","text":"password=y"}}]}`, `{"content":[{"type":"toolCall","arguments":{"password":"[redacted]","text":"password=y"}}]}`},
		// Other values.
		"a string alone": {`"https://u:p@h"`, `"https://[redacted]@h"`},
		"a number alone": {` 1.0 `, ` 1.0 `},
		"empty ones":     {`{"a":{},"b":[],"c":""}`, `{"a":{},"b":[],"c":""}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := []byte(c.in)
			got, err := trajectory.Redact(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("redacted (-want +got):\n%s", diff)
			}
			if string(in) != c.in {
				t.Error("the input was changed")
			}
		})
	}
}

func TestRedactRefusesWhatIsNotJSON(t *testing.T) {
	for name, in := range map[string]string{"nothing": "", "half": `{"a":`, "two": `{} {}`, "words": "password: x"} {
		t.Run(name, func(t *testing.T) {
			if got, err := trajectory.Redact([]byte(in)); !errors.Is(err, trajectory.ErrNotJSON) || got != nil {
				t.Errorf("got %q, %v; want ErrNotJSON", got, err)
			}
		})
	}
}

// planted is a credential that must never come through.
const planted = "S3CR3T-PLANTED"

func FuzzRedact(f *testing.F) {
	f.Add(`{"a":1}`)
	f.Add(`[{"name":"x","value":"y"},"https://u:p@h"]`)
	f.Add(`{"properties":{"password":{"type":"string"}},"headers":[["Cookie","a"],"Authorization: b"]}`)
	f.Add(`{"kind":"Secret","data":{"a":"b"},"dsn":"a='b;c';password=d"}`)
	for _, corpus := range []string{"redacted.jsonl", "untouched.jsonl"} {
		for _, s := range credentialShapes(f, corpus) {
			f.Add(string(s.In))
		}
	}
	f.Fuzz(func(t *testing.T, document string) {
		got, err := trajectory.Redact([]byte(document))
		if (err == nil) != json.Valid([]byte(document)) {
			t.Fatalf("error %v for %q", err, document)
		}
		if err != nil {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("not JSON any more: %q", got)
		}
		again, err := trajectory.Redact(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("not stable: %q, then %q (%v)", got, again, err)
		}
		wrapped, err := trajectory.Redact([]byte(`{"password":"` + planted + `","other":` + document + `,"apiKey":["` + planted + `"]}`))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(document, planted) == 0 && bytes.Contains(wrapped, []byte(planted)) {
			t.Fatalf("a credential came through: %q", wrapped)
		}
	})
}
