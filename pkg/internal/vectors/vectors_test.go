package vectors

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	cases := map[string]struct {
		in, want string
		wantErr  string
	}{
		"nothing to expand is kept byte for byte": {in: `{ "a" : 1.50 }`, want: `{ "a" : 1.50 }`},
		"a long string":                   {in: `{"repeat":"ab","times":3}`, want: `"ababab"`},
		"keys in the other order":         {in: `{"times":2,"repeat":"x"}`, want: `"xx"`},
		"zero times is the empty string":  {in: `[{"repeat":"x","times":0}]`, want: `[""]`},
		"escapes are repeated as written": {in: `{"repeat":"\u4e2d\n","times":2}`, want: `"\u4e2d\n\u4e2d\n"`},
		"inside arrays and objects": {
			in:   `{"m":[{"content":{"repeat":"x","times":2}}]}`,
			want: `{"m":[{"content":"xx"}]}`},
		"numbers, key escapes and duplicate keys are kept": {
			in:   `{"a\u005fb":1e3,"a":1.0,"a":{"repeat":"x","times":1}}`,
			want: `{"a\u005fb":1e3,"a":1.0,"a":"x"}`},
		"tool arguments of that very form stay, strings inside them expand": {
			in:   `{"arguments":{"repeat":"x","times":2},"parameters":{"d":{"repeat":"x","times":2}}}`,
			want: `{"arguments":{"repeat":"x","times":2},"parameters":{"d":"xx"}}`},
		"a third key makes it an ordinary object": {
			in:   `{"repeat":"x","times":2,"y":1}`,
			want: `{"repeat":"x","times":2,"y":1}`},
		"a number to repeat":    {in: `{"repeat":1,"times":2}`, wantErr: "takes a string"},
		"a negative count":      {in: `{"repeat":"x","times":-1}`, wantErr: "zero or more"},
		"a fraction as a count": {in: `{"repeat":"x","times":1.5}`, wantErr: "times"},
		"too long":              {in: `{"repeat":"xxxxxxxx","times":999999999}`, wantErr: "too long"},
		"not JSON":              {in: `{"repeat"`, wantErr: "not valid JSON"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Expand(json.RawMessage(tc.in))
			if !matches(err, tc.wantErr) {
				t.Fatalf("error %v, want one with %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	type inner struct {
		X int `json:"x"`
	}
	type target struct {
		Name string          `json:"name"`
		In   *inner          `json:"in"`
		List []inner         `json:"list"`
		Any  json.RawMessage `json:"any"`
	}
	cases := map[string]struct{ in, wantErr string }{
		"all fields":                         {in: `{"name":"n","in":{"x":1},"list":[{"x":2}],"any":{"Y":1,"Y":2}}`},
		"null pointer":                       {in: `{"name":"n","in":null}`},
		"unknown field":                      {in: `{"name":"n","extra":1}`, wantErr: `unknown field ".extra"`},
		"field in another case":              {in: `{"Name":"n"}`, wantErr: `unknown field ".Name"`},
		"nested field in another case":       {in: `{"in":{"X":1}}`, wantErr: `unknown field ".in.X"`},
		"unknown field in a list element":    {in: `{"list":[{"x":1},{"y":1}]}`, wantErr: `unknown field ".list[1].y"`},
		"field given twice":                  {in: `{"name":"a","name":"b"}`, wantErr: "given twice"},
		"wrong type":                         {in: `{"name":1}`, wantErr: "cannot unmarshal"},
		"an object where a list is expected": {in: `{"list":{}}`, wantErr: "cannot unmarshal"},
		"not JSON":                           {in: `{`, wantErr: "not valid JSON"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got target
			if err := Decode(json.RawMessage(tc.in), &got); !matches(err, tc.wantErr) {
				t.Errorf("error %v, want one with %q", err, tc.wantErr)
			}
		})
	}
}

func TestParse(t *testing.T) {
	cases := map[string]struct{ in, wantErr string }{
		"two cases":       {in: `[{"name":"a"},{"name":"b"}]`},
		"not an array":    {in: `{"name":"a"}`, wantErr: "array of cases"},
		"no name":         {in: `[{"kind":"text"}]`, wantErr: "empty or used before"},
		"same name twice": {in: `[{"name":"a"},{"name":"a"}]`, wantErr: "used before"},
		"bad long string": {in: `[{"name":"a","text":{"repeat":1,"times":1}}]`, wantErr: `case "a"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(tc.in)); !matches(err, tc.wantErr) {
				t.Errorf("error %v, want one with %q", err, tc.wantErr)
			}
		})
	}
}

func TestFilesReadsTheFolderOfTheEnvironmentBesides(t *testing.T) {
	own, extra := t.TempDir(), t.TempDir()
	write(t, filepath.Join(own, "testdata", "vectors", "a.json"), `[{"name":"own"}]`)
	write(t, filepath.Join(extra, "budget", "b.json"), `[{"name":"extra","text":{"repeat":"x","times":2}}]`)
	write(t, filepath.Join(extra, "projection", "c.json"), `[{"name":"other area"}]`)
	t.Chdir(own)
	t.Setenv(Env, extra)

	var got []string
	for _, file := range Files(t, "budget") {
		for _, c := range file.Cases {
			got = append(got, c.Name+" "+string(c.Raw))
		}
	}
	want := []string{`own {"name":"own"}`, `extra {"name":"extra","text":"xx"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// matches says whether err is nil when want is empty and holds want otherwise.
func matches(err error, want string) bool {
	if want == "" {
		return err == nil
	}
	return err != nil && strings.Contains(err.Error(), want)
}
