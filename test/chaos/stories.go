package chaos

import "strings"

// story is a conversation that is told once undisturbed, and then again with a worker that dies in it.
type story struct {
	name string
	// models is the model script. Its replies have conditions instead of an order, since requests are sent again.
	models string
	// session is what the session's spec has besides its model and tool server, server what the server's has.
	session, server string
	// prompts are the runs, one after another; the last one is disturbed.
	prompts []string
	// approves says that calls wait for a person, who approves them.
	approves bool
}

// The texts of $NS and $NS-model are the case's own.
var stories = []story{
	{
		name: "plain", prompts: []string{"Say something."},
		models: `
- content: [{text: "Something that is said in several pieces."}]
  chunks: 4
  repeat: true`,
	},
	{
		name: "tools", prompts: []string{"Note the weather."},
		models: `
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
		name: "parallel", prompts: []string{"Add and look."},
		models: `
- match: {step: 1}
  content:
  - {toolCall: {id: c1, name: tools__add, arguments: {a: 1, b: 2}}}
  - {toolCall: {id: c2, name: tools__weather, arguments: {city: Oslo}}}
  repeat: true
- content: [{text: "Both are done."}]
  repeat: true`,
	},
	{
		name: "compaction", prompts: []string{strings.Repeat("word ", 2400), strings.Repeat("more ", 2400), "And now?"},
		models: `
- match: {system: "working memory of an agent"}
  content: [{text: "They talk of words."}]
  repeat: true
- content: [{text: "I see."}]
  repeat: true`,
		session: "compaction: {thresholdPercent: 40}",
	},
	{
		name: "approval", prompts: []string{"Note it."}, approves: true,
		models: `
- match: {step: 1}
  content:
  - {toolCall: {id: c1, name: tools__append_note, arguments: {text: "note of $NS"}}}
  - {toolCall: {id: c2, name: tools__append_note, arguments: {text: "second note of $NS"}}}
  repeat: true
- content: [{text: "It is noted."}]
  repeat: true`,
		server: "requireApproval: [append_note]",
	},
	{
		name: "subagents", prompts: []string{"Start."},
		models: `
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
		session: `
  subagents:
  - {name: reviewer, description: Judges., toolServers: [tools]}
  - {name: writer, description: Writes.}`,
	},
	{
		name: "codemode", prompts: []string{"Compute."},
		models: `
- match: {step: 1}
  content: [{toolCall: {id: c1, name: codemode, arguments: {code: "const n = await tools.tools.add({a: 1, b: 2}); await tools.tools.append_note({text: 'note of $NS'}); return n"}}}]
  repeat: true
- content: [{text: "It is computed."}]
  repeat: true`,
		server: "declaration: Codemode",
	},
}
