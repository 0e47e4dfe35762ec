package api

import (
	"strings"
	"testing"

	"github.com/agentloop/agentloop/api/v1alpha1"
)

const smallestRun = `
sessionRef: {name: s}
input: {text: hi}
`

const fullRun = `
sessionRef: {name: team.session.one}
operation: Prompt
input:
  text: null
  parts:
  - {text: "What is on this picture?"}
  - {image: {configMapKeyRef: {name: pictures, key: one.png}, mediaType: image/png}}
skills: [review, release]
agent: researcher
parent: {runRef: {name: outer, uid: 7b2f3a52-4c1d-4f0e-9a57-0f6f2c1b8a11}, toolCallID: "functions.todo:0"}
limits: {maxTurns: 5, maxTotalTokens: 100000, activeDeadlineSeconds: 60, queueDeadlineSeconds: 30, maxAttempts: 1}
sampling: {temperature: "0", seed: 7, extra: [{name: min_p, value: "0.05"}]}
cancel: true
ttlSecondsAfterFinished: 0
`

const compactRun = "operation: Compact\ninput: null\n"

func TestAgentRunCreation(t *testing.T) {
	kib64 := strings.Repeat("x", 65536)
	runCreations(t, v1alpha1.KindAgentRun, smallestRun, map[string]creation{
		"the smallest run":               {},
		"every field set":                {spec: fullRun},
		"a compaction":                   {spec: compactRun},
		"a prompt of 64 KiB":             {spec: "input: {text: " + kib64 + "}"},
		"a prompt from a ConfigMap":      {spec: "input: {text: null, configMapKeyRef: {name: c, key: prompt.md}}"},
		"a prompt of several lines":      {spec: `input: {text: "\n  one\n\n  two\n"}`},
		"a prompt in another script":     {spec: "input: {text: 請解釋這個專案}"},
		"a run for main, said in words":  {spec: "agent: main"},
		"a parent without its UID":       {spec: "agent: a\nparent: {runRef: {name: outer}, toolCallID: c1}"},
		"no session":                     {spec: "sessionRef: null", want: "spec.sessionRef: Required value"},
		"a session of another namespace": {spec: "sessionRef: {name: x/s}", want: "must be the name of an AgentSession in this namespace"},
		"a session and its namespace":    {spec: "sessionRef: {name: s, namespace: x}", want: `unknown field "spec.sessionRef.namespace"`},
		"an unknown operation":           {spec: "operation: Fork", want: `supported values: "Prompt", "Compact"`},
		"a prompt without input":         {spec: "input: null", want: "a Prompt run needs input: set one of input.text, input.configMapKeyRef and input.parts"},
		"a compaction with input":        {spec: "operation: Compact", want: "a Compact run takes no input: remove it, or set operation to Prompt"},
		"a compaction with skills":       {spec: compactRun + "skills: [a]", want: "a Compact run takes no skills"},
		"a compaction of a subagent":     {spec: compactRun + "agent: a\nparent: {runRef: {name: r}, toolCallID: c}", want: "a Compact run works on the agent main only"},
		"input in no form":               {spec: "input: {text: null}", want: "set exactly one of text, configMapKeyRef and parts"},
		"input in two forms":             {spec: "input: {configMapKeyRef: {name: c, key: k}}", want: "set exactly one of text, configMapKeyRef and parts"},
		"input in three forms":           {spec: "input: {configMapKeyRef: {name: c, key: k}, parts: [{text: a}]}", want: "set exactly one of text, configMapKeyRef and parts"},
		"an empty prompt":                {spec: "input: {text: ''}", want: "should be at least 1 chars long"},
		"a blank prompt":                 {spec: `input: {text: " \n\t "}`, want: "holds only blanks: write the prompt"},
		"a prompt of 64 KiB and one":     {spec: "input: {text: " + kib64 + "x}", want: "put the text in a ConfigMap and name it in configMapKeyRef"},
		"a prompt of 96 KiB of Han":      {spec: "input: {text: " + strings.Repeat("中", 32768) + "}", want: "is larger than 65536 bytes"},
		"a prompt beyond all measure":    {spec: "input: {text: " + kib64 + kib64 + "x}", want: "Too long"},
		"no parts":                       {spec: "input: {text: null, parts: []}", want: "should have at least 1 items"},
		"an empty part":                  {spec: "input: {text: null, parts: [{}]}", want: "set exactly one of text and image"},
		"a part that is two":             {spec: "input: {text: null, parts: [{text: a, image: {configMapKeyRef: {name: c, key: k}, mediaType: image/png}}]}", want: "set exactly one of text and image"},
		"a part that is blank":           {spec: "input: {text: null, parts: [{text: ' '}]}", want: "write the text or remove the part"},
		"a picture of another format":    {spec: "input: {text: null, parts: [{image: {configMapKeyRef: {name: c, key: k}, mediaType: image/tiff}}]}", want: `supported values: "image/png"`},
		"more parts than there may be":   {spec: "input: {text: null, parts: " + many(17, "{text: p%d}") + "}", want: "must have at most 16 items"},
		"a subagent without a parent":    {spec: "agent: a", want: "a subagent runs only for another run: name that run in parent"},
		"a parent without a subagent":    {spec: "parent: {runRef: {name: r}, toolCallID: c}", want: "a run with a parent needs the name of a subagent"},
		"a parent without its call":      {spec: "agent: a\nparent: {runRef: {name: r}}", want: "spec.parent.toolCallID: Required value"},
		"a parent with a wrong UID":      {spec: "agent: a\nparent: {runRef: {name: r, uid: x}, toolCallID: c}", want: "must be the metadata.uid of the run"},
		"an agent in capitals":           {spec: "agent: Main\nparent: {runRef: {name: r}, toolCallID: c}", want: "must be main or the name of a subagent"},
		"the same skill twice":           {spec: "skills: [a, a]", want: "Duplicate value"},
		"no turns":                       {spec: "limits: {maxTurns: 0}", want: "should be greater than or equal to 1"},
		"a deadline that is a duration":  {spec: "limits: {activeDeadlineSeconds: 1h}", want: "must be of type integer"},
		"a deadline of half a year":      {spec: "limits: {activeDeadlineSeconds: 15552000}", want: "should be less than or equal to 2592000"},
		"a negative time to live":        {spec: "ttlSecondsAfterFinished: -1", want: "should be greater than or equal to 0"},
		"a sampling field of the engine": {spec: "sampling: {extra: [{name: stream, value: 'true'}]}", want: "this field is written by the engine"},
		"the same extra field twice":     {spec: "sampling: {extra: [{name: a, value: '1'}, {name: a, value: '2'}]}", want: "Duplicate value"},
		"an unknown field":               {spec: "prompt: hi", want: `unknown field "spec.prompt"`},
	})
}

func TestAgentRunChange(t *testing.T) {
	const child = "agent: a\nparent: {runRef: {name: r}, toolCallID: c}"
	runChanges(t, v1alpha1.KindAgentRun, smallestRun, map[string]change{
		"cancel":                       {after: "cancel: true"},
		"cancel once more":             {before: "cancel: true", after: "cancel: true"},
		"cancel said as false":         {after: "cancel: false"},
		"a time to live":               {after: "ttlSecondsAfterFinished: 60"},
		"a shorter time to live":       {before: "ttlSecondsAfterFinished: 60", after: "ttlSecondsAfterFinished: 0"},
		"no time to live any more":     {before: "ttlSecondsAfterFinished: 60", after: "ttlSecondsAfterFinished: null"},
		"the same once more":           {before: fullRun, after: fullRun},
		"cancel taken back":            {before: "cancel: true", after: "cancel: false", want: "cancel cannot be taken back: create a new AgentRun"},
		"cancel removed":               {before: "cancel: true", after: "cancel: null", want: "cancel cannot be taken back"},
		"another session":              {after: "sessionRef: {name: t}", want: "sessionRef cannot be changed: create a new AgentRun"},
		"another prompt":               {after: "input: {text: ho}", want: "input cannot be changed: create a new AgentRun"},
		"another form of prompt":       {after: "input: {text: null, parts: [{text: hi}]}", want: "input cannot be changed"},
		"a prompt made a compaction":   {after: compactRun, want: "operation cannot be changed"},
		"a compaction made a prompt":   {before: compactRun, after: "operation: null\ninput: {text: hi}", want: "operation cannot be changed"},
		"skills added":                 {after: "skills: [a]", want: "skills cannot be changed: create a new AgentRun"},
		"skills removed":               {before: "skills: [a]", after: "skills: null", want: "skills cannot be changed"},
		"another subagent":             {before: child, after: "agent: b", want: "agent cannot be changed"},
		"another parent":               {before: child, after: "parent: {toolCallID: d}", want: "parent cannot be changed"},
		"a subagent's run made main's": {before: child, after: "agent: null\nparent: null", want: "agent cannot be changed"},
		"more turns":                   {after: "limits: {maxTurns: 200}", want: "limits cannot be changed: create a new AgentRun"},
		"a token limit removed":        {before: "limits: {maxTotalTokens: 5}", after: "limits: {maxTotalTokens: null}", want: "limits cannot be changed"},
		"another temperature":          {before: `sampling: {temperature: "0"}`, after: `sampling: {temperature: "1"}`, want: "sampling cannot be changed"},
		"sampling added":               {after: `sampling: {temperature: "1"}`, want: "sampling cannot be changed: create a new AgentRun"},
		"a negative time to live":      {after: "ttlSecondsAfterFinished: -5", want: "should be greater than or equal to 0"},
	})
}
