package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

func clock() time.Time { return time.Date(2026, 3, 14, 23, 30, 15, 999, time.UTC) }

var errBroken = errors.New("the store is away")

// long is a result of 200,000 bytes whose characters have two each.
var long = strings.Repeat("é", 100_000)

// testHost is a run with two skills and a few results.
func testHost() agent.Host {
	skills := map[string]session.Skill{
		"log": {V: 1, ID: "log", Revision: "sha256:aa", Name: "changelog", Instructions: "Group by package.", Files: []session.SkillFile{
			{Name: "EMPTY"}, {Name: "logo.png", Size: 9, Binary: true}, {Name: "words.md", Size: 10, Text: "Be plain.\n"},
		}},
		"bare": {V: 1, ID: "bare", Revision: "sha256:bb", Name: "bare", Instructions: " "},
		"huge": {V: 1, ID: "huge", Revision: "sha256:cc", Name: "huge", Instructions: long},
	}
	return agent.Host{
		Others: []tool.Definition{{Server: "docs"}},
		Skills: []session.LoadableSkill{{ID: "log"}, {ID: "bare"}, {ID: "huge"}, {ID: "lost"}},
		Skill: func(_ context.Context, id string) (session.Skill, error) {
			if id == "lost" {
				return session.Skill{}, errBroken
			}
			if skill, ok := skills[id]; ok {
				return skill, nil
			}
			return session.Skill{}, agent.ErrNoSkill
		},
		Result: func(_ context.Context, id string) (string, error) {
			switch id {
			case "long":
				return long, nil
			case "short":
				return "", agent.ErrNotCut
			case "lost":
				return "", errBroken
			}
			return "", agent.ErrNoResult
		},
	}
}

func call(name, arguments string) tool.Call {
	return tool.Call{ID: "c9", Name: name, Arguments: json.RawMessage(arguments)}
}

// TestCalls goes through what a model may ask, and may get wrong.
func TestCalls(t *testing.T) {
	files := "- EMPTY (0 bytes)\n- logo.png (9 bytes, not text: it cannot be read)\n- words.md (10 bytes)"
	misfit := "The arguments do not fit the tool's schema. Send the call again with arguments as declared."
	cases := map[string]struct {
		call    tool.Call
		want    string
		isError bool
	}{
		"the time, in UTC":                     {call(Now, ``), "2026-03-14T23:30:15Z Saturday", false},
		"the time somewhere, on another day":   {call(Now, `{"timeZone":"Asia/Tokyo"}`), "2026-03-15T08:30:15+09:00 Sunday", false},
		"arguments that are null":              {call(Now, `null`), "2026-03-14T23:30:15Z Saturday", false},
		"a zone that there is not":             {call(Now, `{"timeZone":"Mars/Base"}`), `There is no time zone "Mars/Base". Use an IANA name such as Europe/Berlin, or none for UTC.`, true},
		"a zone that leads elsewhere":          {call(Now, `{"timeZone":"../../etc/passwd"}`), `"../../etc/passwd" is no name of a time zone. Use an IANA name such as Europe/Berlin, or none for UTC.`, true},
		"the worker's own zone":                {call(Now, `{"timeZone":"Local"}`), `"Local" is no name of a time zone. Use an IANA name such as Europe/Berlin, or none for UTC.`, true},
		"an argument of another type":          {call(Now, `{"timeZone":3}`), "The argument timeZone cannot be a number. Send the call again with arguments as declared.", true},
		"an argument that there is not":        {call(Now, `{"zone":"UTC"}`), misfit, true},
		"arguments that are no object":         {call(Now, `"UTC"`), misfit, true},
		"two values":                           {call(Now, `{} {}`), misfit, true},
		"a skill with files":                   {call(LoadSkill, `{"id":"log"}`), "Group by package.\n\nFiles of this skill, which load_skill returns by their name:\n" + files, false},
		"a skill's instructions by their name": {call(LoadSkill, `{"id":"bare","file":"SKILL.md"}`), "(The skill has no instructions.)", false},
		"a skill's file":                       {call(LoadSkill, `{"id":"log","file":"words.md"}`), "Be plain.\n", false},
		"a file with the folders of its text":  {call(LoadSkill, `{"id":"log","file":"./references/words.md"}`), "Be plain.\n", false},
		"an empty file":                        {call(LoadSkill, `{"id":"log","file":"EMPTY"}`), "(The file is empty.)", false},
		"a file that is not text":              {call(LoadSkill, `{"id":"log","file":"logo.png"}`), "The file logo.png is not text (9 bytes) and cannot be read.", true},
		"a file that there is not":             {call(LoadSkill, `{"id":"log","file":"nope"}`), "The skill log has no file \"nope\". It has:\n" + files, true},
		"a file of a skill that has none":      {call(LoadSkill, `{"id":"bare","file":"nope"}`), `The skill bare has no file "nope", and no other file than its instructions.`, true},
		"a file outside of the skill":          {call(LoadSkill, `{"id":"log","file":"../words.md"}`), `"../words.md" is outside of the skill. Name one of its files.`, true},
		"a file outside of everything":         {call(LoadSkill, `{"id":"log","file":"/etc/passwd"}`), `"/etc/passwd" is outside of the skill. Name one of its files.`, true},
		"a file outside, in another spelling":  {call(LoadSkill, `{"id":"log","file":"a\\..\\..\\words.md"}`), `"a\\..\\..\\words.md" is outside of the skill. Name one of its files.`, true},
		"a skill that there is not":            {call(LoadSkill, `{"id":"nope"}`), `There is no skill "nope". There are: log, bare, huge, lost.`, true},
		"a skill that cannot be read":          {call(LoadSkill, `{"id":"lost"}`), "The skill could not be read now. Try again later.", true},
		"the beginning of a result":            {call(ReadResult, `{"callId":"long","limit":5}`), "éé\n\n[Bytes 0 to 4 of 200000. The next offset is 4.]", false},
		"a page inside a character":            {call(ReadResult, `{"callId":"long","offset":5,"limit":1}`), "é\n\n[Bytes 4 to 6 of 200000. The next offset is 6.]", false},
		"the end of a result":                  {call(ReadResult, `{"callId":"long","offset":199996}`), "éé\n\n[Bytes 199996 to 200000 of 200000. This is the end.]", false},
		"behind the end":                       {call(ReadResult, `{"callId":"long","offset":200000}`), "The result has 200000 bytes: there is nothing at offset 200000.", true},
		"far behind the end":                   {call(ReadResult, `{"callId":"long","offset":9223372036854775807}`), "The result has 200000 bytes: there is nothing at offset 9223372036854775807.", true},
		"before the beginning":                 {call(ReadResult, `{"callId":"long","offset":-1}`), "limit must be 1 to 60000 bytes, and offset 0 or more.", true},
		"more than a page":                     {call(ReadResult, `{"callId":"long","limit":60001}`), "limit must be 1 to 60000 bytes, and offset 0 or more.", true},
		"a result that is whole":               {call(ReadResult, `{"callId":"short"}`), `Nothing was cut from the result of call "short": all of it is in the conversation.`, true},
		"a result that there is not":           {call(ReadResult, `{"callId":"x"}`), `No earlier call has the id "x". Use the id in the mark of a result that was cut.`, true},
		"a result that cannot be read":         {call(ReadResult, `{"callId":"lost"}`), "The result could not be read now. Try again later.", true},
		"another tool":                         {call("run", `{}`), `There is no tool named "run".`, true},
	}
	set := New(clock)(testHost())
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := set.Call(t.Context(), tc.call, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Content.Text); diff != "" || got.IsError != tc.isError || !got.Content.IsText {
				t.Errorf("error %t, text (-want +got):\n%s", got.IsError, diff)
			}
			if got.Audit != (tool.Audit{}) {
				t.Errorf("audited as an exchange with a server: %+v", got.Audit)
			}
		})
	}
}

// TestReadingOn reads a skill that is too long for one result page by page, as its mark says.
func TestReadingOn(t *testing.T) {
	set := New(clock)(testHost())
	first, err := set.Call(t.Context(), call(LoadSkill, `{"id":"huge"}`), nil)
	if err != nil || first.IsError || first.Whole != long || len(first.Content.Text) > MaxResult {
		t.Fatalf("%v, %d bytes of %d kept", err, len(first.Content.Text), len(first.Whole))
	}
	got, mark, _ := strings.Cut(first.Content.Text, "\n\n[")
	if want := fmt.Sprintf(`Cut: the first %d of 200000 bytes are shown. To read on, call read_result with callId "c9" and offset %d.]`, len(got), len(got)); mark != want {
		t.Errorf("mark %q, want %q", mark, want)
	}
	if diff := cmp.Diff(`{"skill":{"id":"huge","revision":"sha256:cc","name":"huge"}}`, string(first.Details)); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	for len(got) < len(long) {
		next, err := set.Call(t.Context(), call(ReadResult, fmt.Sprintf(`{"callId":"long","offset":%d,"limit":60000}`, len(got))), nil)
		if err != nil || next.IsError || len(next.Content.Text) > MaxResult {
			t.Fatalf("%v, %+.200v", err, next)
		}
		part, _, _ := strings.Cut(next.Content.Text, "\n\n[")
		got += part
	}
	if got != long {
		t.Error("the pages do not make the whole")
	}
}

// TestDeclared says which tools a run has.
func TestDeclared(t *testing.T) {
	server := []tool.Definition{{Tool: message.Tool{Name: "docs__get"}, Server: "docs"}}
	skills := []session.LoadableSkill{{ID: "log"}}
	old := tool.Definition{Tool: message.Tool{Name: Now, Description: "Tells the time."}}
	foreign := tool.Definition{Tool: message.Tool{Name: LoadSkill}, Server: "docs"}
	cases := map[string]struct {
		host agent.Host
		want []string
	}{
		"nothing in a plain conversation":           {agent.Host{}, nil},
		"no skills":                                 {agent.Host{Others: server}, []string{Now, ReadResult}},
		"skills alone":                              {agent.Host{Skills: skills}, []string{Now, LoadSkill, ReadResult}},
		"a run that was begun without":              {agent.Host{Known: []tool.Definition{}, Others: server, Skills: skills}, nil},
		"a run that was begun with one, and no own": {agent.Host{Known: []tool.Definition{old, foreign}, Skills: skills}, []string{Now}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := New(clock)(tc.host)
			var got []string
			for _, d := range set.Definitions() {
				got = append(got, d.Name)
				if tc.host.Known != nil {
					if diff := cmp.Diff(old, d); diff != "" {
						t.Errorf("declared in other words (-want +got):\n%s", diff)
					}
					continue
				}
				if !json.Valid(d.Parameters) || d.Description == "" || d.RequiresApproval || !d.Repeatable() || !d.Concurrent() || d.Server != "" {
					t.Errorf("%s: %+v", d.Name, d)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			if err := set.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if got, _ := New(clock)(agent.Host{Known: []tool.Definition{}}).Call(t.Context(), call(Now, ""), nil); !got.IsError {
		t.Error("a tool that the run does not have was run")
	}
}

// TestCallsEndWithTheRun gives no result when the run is over.
func TestCallsEndWithTheRun(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	host := testHost()
	host.Skill = func(context.Context, string) (session.Skill, error) {
		cancel(agent.ErrHandBack)
		return session.Skill{}, context.Canceled
	}
	set := New(clock)(host)
	for range 2 { // while it reads, and before
		if _, err := set.Call(ctx, call(LoadSkill, `{"id":"log"}`), nil); !errors.Is(err, agent.ErrHandBack) {
			t.Errorf("error %v, want the cause of the run's end", err)
		}
	}
}

// FuzzPage states that pages are whole characters, never empty, and lose nothing.
func FuzzPage(f *testing.F) {
	f.Add("aé中😀z", 2, 3)
	f.Add("\xff\xfe", 1, 1)
	f.Fuzz(func(t *testing.T, text string, offset, limit int) {
		text = strings.ToValidUTF8(text, "\uFFFD")
		if offset < 0 || offset >= len(text) || limit < 1 {
			return
		}
		start, end := page(text, offset, limit)
		if start > offset || end <= start || end > len(text) || !utf8.ValidString(text[start:end]) {
			t.Errorf("page(%q, %d, %d) = %d, %d", text, offset, limit, start, end)
		}
		if size := end - start; size > limit && utf8.RuneCountInString(text[start:end]) != 1 {
			t.Errorf("a page of %d bytes for a limit of %d", size, limit)
		}
	})
}
