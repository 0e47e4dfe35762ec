package stories

import "strings"

// Story is a conversation.
type Story struct {
	Name string
	// Models is the model script. Its replies have conditions instead of an order, since requests are sent again.
	Models string
	// Session is what the session's spec has besides its model and tool server, Server what the server's has.
	Session, Server string
	// Prompts are the runs, one after another.
	Prompts []string
	// Approves says that calls wait for a person, who approves them.
	Approves bool
}

// All are the stories. The texts of $NS and $NS-model are the telling's own.
var All = []Story{
	{
		Name: "plain", Prompts: []string{"Say something."},
		Models: `
- content: [{text: "Something that is said in several pieces."}]
  chunks: 4
  repeat: true`,
	},
	{
		Name: "tools", Prompts: []string{"Note the weather."},
		Models: `
- match: {step: 1}
  content: [{toolCall: {id: c1, name: tools__weather, arguments: {city: Oslo}}}]
  repeat: true
- match: {step: 2}
  content: [{toolCall: {id: c2, name: tools__append_note, arguments: {text: "note of $NS"}}}]
  repeat: true
- content: [{text: "It is noted."}]
  repeat: true`,
	},
	{
		Name: "parallel", Prompts: []string{"Add and look."},
		Models: `
- match: {step: 1}
  content:
  - {toolCall: {id: c1, name: tools__add, arguments: {a: 1, b: 2}}}
  - {toolCall: {id: c2, name: tools__weather, arguments: {city: Oslo}}}
  repeat: true
- content: [{text: "Both are done."}]
  repeat: true`,
	},
	{
		Name: "compaction", Prompts: []string{strings.Repeat("word ", 2400), strings.Repeat("more ", 2400), "And now?"},
		Models: `
- match: {system: "working memory of an agent"}
  content: [{text: "They talk of words."}]
  repeat: true
- content: [{text: "I see."}]
  repeat: true`,
		Session: "compaction: {thresholdPercent: 40}",
	},
	{
		Name: "approval", Prompts: []string{"Note it."}, Approves: true,
		Models: `
- match: {step: 1}
  content:
  - {toolCall: {id: c1, name: tools__append_note, arguments: {text: "note of $NS"}}}
  - {toolCall: {id: c2, name: tools__append_note, arguments: {text: "second note of $NS"}}}
  repeat: true
- content: [{text: "It is noted."}]
  repeat: true`,
		Server: "requireApproval: [append_note]",
	},
	{
		Name: "subagents", Prompts: []string{"Start."},
		Models: `
- match: {lastUser: "Start.", step: 1}
  content:
  - {toolCall: {id: d1, name: delegate, arguments: {agent: reviewer, task: "Judge it."}}}
  - {toolCall: {id: d2, name: delegate, arguments: {agent: writer, task: "Write it."}}}
  repeat: true
- match: {lastUser: "Judge it.", step: 1}
  content: [{toolCall: {id: c1, name: tools__append_note, arguments: {text: "note of $NS"}}}]
  repeat: true
- match: {lastUser: "Judge it."}
  content: [{text: "Good."}]
  repeat: true
- match: {lastUser: "Write it."}
  content: [{text: "Written."}]
  repeat: true
- content: [{text: "All is done."}]
  repeat: true`,
		Session: `
  subagents:
  - {name: reviewer, description: Judges., toolServers: [tools]}
  - {name: writer, description: Writes.}`,
	},
	{
		Name: "codemode", Prompts: []string{"Compute."},
		Models: `
- match: {step: 1}
  content: [{toolCall: {id: c1, name: codemode, arguments: {code: "const n = await tools.tools.add({a: 1, b: 2}); await tools.tools.append_note({text: 'note of $NS'}); return n"}}}]
  repeat: true
- content: [{text: "It is computed."}]
  repeat: true`,
		Server: "declaration: Codemode",
	},
}
