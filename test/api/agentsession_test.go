package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/api/v1alpha1"
)

const smallestSession = `
model: {providerRef: {name: p}, model: m}
`

const fullSession = `
model: {providerRef: {name: anthropic.eu}, model: claude, reasoningEffort: medium, maxOutputTokens: 16000}
instructions:
- {name: project-instructions, text: Run make test before you answer.}
- {name: style, configMapKeyRef: {name: style, key: STYLE.md}}
context:
- {name: cluster, configMapKeyRef: {name: facts, key: cluster}}
toolServers:
- name: github
  url: https://mcp.example.com/github?toolset=all
  bearerTokenSecretRef: {name: github, key: token}
  headers: [{name: X-Team, value: platform}]
  caBundle: {name: ca, key: ca.crt}
  allow: [search, merge]
  requireApproval: [merge]
  retrySafe: [search]
  declaration: Direct
  onUnavailable: Continue
  approvalTimeoutSeconds: 86400
  callTimeoutSeconds: 5
  maxResultBytes: 1024
- {name: all, url: "http://tools:8080/mcp", allow: ["*"], requireApproval: [anything], retrySafe: ["*"], declaration: Codemode}
skills:
- {id: review, configMapKeyRef: {name: skills, key: review.md}, load: Automatic}
- {id: release, configMapRef: {name: release-skill}}
subagents:
- name: researcher
  description: Reads and summarises.
  model: {providerRef: {name: p}, model: small, reasoningEffort: "off"}
  instructions: [{name: role, text: You read.}]
  toolServers: [github]
  skills: [review]
  maxTurns: 20
  maxDepth: 2
  maxParallel: 2
compaction: {automatic: Disabled, thresholdPercent: 75, model: {providerRef: {name: p}, model: small}}
overflowRecovery: Disabled
title: Auto
history: {keepRuns: 0, onDelete: Delete}
suspend: true
maxTotalTokens: 10000000
resultPreview: "On"
adoptUID: 7b2f3a52-4c1d-4f0e-9a57-0f6f2c1b8a11
`

// server is the smallest tool server with fields added.
func server(fields string) string {
	return "toolServers: [{name: t, url: 'http://t/mcp', declaration: Direct, " + fields + "}]"
}

// many repeats an item with its number in it, as a YAML flow list.
func many(n int, format string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(format, i)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func TestAgentSessionCreation(t *testing.T) {
	runCreations(t, v1alpha1.KindAgentSession, smallestSession, map[string]creation{
		"the smallest session":               {},
		"every field set":                    {spec: fullSession},
		"a server that admits no tool":       {spec: server("allow: []")},
		"approval for every allowed tool":    {spec: server("allow: [a, b], requireApproval: ['*']")},
		"as many servers as there may be":    {spec: "toolServers: " + many(16, "{name: t%d, url: 'http://t/mcp', declaration: Direct, allow: ['*']}")},
		"instructions at their largest":      {spec: "instructions: [{name: a, text: " + strings.Repeat("x", 65536) + "}]"},
		"a bearer token and another header":  {spec: server("bearerTokenSecretRef: {name: s, key: k}, headers: [{name: X-A, value: b}]")},
		"no model":                           {spec: "model: null", want: "spec.model: Required value"},
		"no provider":                        {spec: "model: {providerRef: null}", want: "spec.model.providerRef: Required value"},
		"a provider of another namespace":    {spec: "model: {providerRef: {name: x/p}}", want: "must be the name of a ModelProvider in this namespace"},
		"an unknown effort":                  {spec: "model: {reasoningEffort: max}", want: `supported values: "off", "minimal", "low", "medium", "high", "xhigh"`},
		"an output cap of zero":              {spec: "model: {maxOutputTokens: 0}", want: "should be greater than or equal to 1"},
		"an output cap that is unsafe":       {spec: "model: {maxOutputTokens: 9007199254740992}", want: "should be less than or equal to"},
		"an unknown field":                   {spec: "modell: x", want: `unknown field "spec.modell"`},
		"an instruction without a text":      {spec: "instructions: [{name: a}]", want: "set exactly one of text and configMapKeyRef"},
		"an instruction with two texts":      {spec: "instructions: [{name: a, text: b, configMapKeyRef: {name: c, key: k}}]", want: "set exactly one of text and configMapKeyRef"},
		"an instruction that is too long":    {spec: "instructions: [{name: a, text: " + strings.Repeat("x", 65537) + "}]", want: "may not be more than 65536 bytes"},
		"the same instruction twice":         {spec: "instructions: [{name: a, text: b}, {name: a, text: c}]", want: `Duplicate value: {"name":"a"}`},
		"a section name that is a tag":       {spec: "instructions: [{name: '/a>', text: b}]", want: "must start with a lower-case letter"},
		"a context without a text":           {spec: "context: [{name: a}]", want: "set exactly one of text and configMapKeyRef"},
		"the same context twice":             {spec: "context: [{name: a, text: b}, {name: a, text: c}]", want: "Duplicate value"},
		"a server without a URL":             {spec: "toolServers: [{name: t, declaration: Direct}]", want: "spec.toolServers[0].url: Required value"},
		"a server without a declaration":     {spec: "toolServers: [{name: t, url: 'http://t'}]", want: "spec.toolServers[0].declaration: Required value"},
		"a server that is a command":         {spec: "toolServers: [{name: t, url: 'stdio:cat', declaration: Direct}]", want: "must start with https:// or http://"},
		"a server URL with a password":       {spec: "toolServers: [{name: t, url: 'http://a:b@t/mcp', declaration: Direct}]", want: "name it in bearerTokenSecretRef or headers"},
		"a server URL with a fragment":       {spec: "toolServers: [{name: t, url: 'http://t/mcp#x', declaration: Direct}]", want: "must not hold a fragment"},
		"a server URL without a host":        {spec: "toolServers: [{name: t, url: 'http://', declaration: Direct}]", want: "must be a URL with a host"},
		"a server name with an underscore":   {spec: "toolServers: [{name: a_b, url: 'http://t', declaration: Direct}]", want: "must be lower-case letters, digits and '-'"},
		"the same server twice":              {spec: "toolServers: [{name: t, url: 'http://t', declaration: Direct}, {name: t, url: 'http://u', declaration: Direct}]", want: "Duplicate value"},
		"more servers than there may be":     {spec: "toolServers: " + many(17, "{name: t%d, url: 'http://t', declaration: Direct}"), want: "must have at most 16 items"},
		"approval for a tool not allowed":    {spec: server("allow: [a], requireApproval: [a, b]"), want: "requireApproval names a tool that allow does not admit"},
		"approval where nothing is allowed":  {spec: server("requireApproval: [b]"), want: "requireApproval names a tool that allow does not admit"},
		"a safe retry of a tool not allowed": {spec: server("allow: [a], retrySafe: [b]"), want: "retrySafe names a tool that allow does not admit"},
		"the same tool twice":                {spec: server("allow: [a, a]"), want: "Duplicate value"},
		"two Authorization headers":          {spec: server("bearerTokenSecretRef: {name: s, key: k}, headers: [{name: authorization, secretKeyRef: {name: s, key: k}}]"), want: "bearerTokenSecretRef writes the header Authorization already"},
		"an endless tool call":               {spec: server("callTimeoutSeconds: 0"), want: "should be greater than or equal to 1"},
		"results without a bound":            {spec: server("maxResultBytes: 50000000"), want: "should be less than or equal to 4194304"},
		"a skill from nowhere":               {spec: "skills: [{id: a}]", want: "set exactly one of configMapKeyRef (one SKILL.md) and configMapRef"},
		"a skill from two places":            {spec: "skills: [{id: a, configMapKeyRef: {name: c, key: k}, configMapRef: {name: c}}]", want: "set exactly one of configMapKeyRef (one SKILL.md) and configMapRef"},
		"the same skill twice":               {spec: "skills: [{id: a, configMapRef: {name: c}}, {id: a, configMapRef: {name: d}}]", want: `Duplicate value: {"id":"a"}`},
		"a subagent with a dot in its name":  {spec: "subagents: [{name: a.b, description: d}]", want: "must be a DNS label"},
		"a subagent named main":              {spec: "subagents: [{name: main, description: d}]", want: "main is the name of the session's own agent"},
		"a subagent without a description":   {spec: "subagents: [{name: a}]", want: "spec.subagents[0].description: Required value"},
		"a subagent with a foreign server":   {spec: server("allow: []") + "\nsubagents: [{name: a, description: d, toolServers: [u]}]", want: "a subagent names a tool server that the session does not have"},
		"a subagent with a foreign skill":    {spec: "subagents: [{name: a, description: d, skills: [s]}]", want: "a subagent names a skill that the session does not have"},
		"a subagent that is too deep":        {spec: "subagents: [{name: a, description: d, maxDepth: 6}]", want: "should be less than or equal to 5"},
		"a threshold above the limit":        {spec: "compaction: {thresholdPercent: 101}", want: "should be less than or equal to 100"},
		"a switch that is a boolean":         {spec: "compaction: {automatic: false}", want: `spec.compaction.automatic in body must be of type string: "boolean"`},
		"an adopted UID that is none":        {spec: "adoptUID: my-session", want: "must be the status.storageUID of a session"},
	})
}

func TestAgentSessionChange(t *testing.T) {
	const uid, other = "7b2f3a52-4c1d-4f0e-9a57-0f6f2c1b8a11", "7b2f3a52-4c1d-4f0e-9a57-0f6f2c1b8a12"
	runChanges(t, v1alpha1.KindAgentSession, smallestSession, map[string]change{
		"another model":                    {after: "model: {providerRef: {name: q}, model: other, reasoningEffort: high}"},
		"suspend and back":                 {before: "suspend: true", after: "suspend: false"},
		"tools, skills and subagents":      {after: server("allow: [a]") + "\nskills: [{id: s, configMapRef: {name: c}}]\nsubagents: [{name: a, description: d, toolServers: [t], skills: [s]}]"},
		"an adopted history stays":         {before: "adoptUID: " + uid, after: "title: Auto"},
		"another adopted history":          {before: "adoptUID: " + uid, after: "adoptUID: " + other, want: "adoptUID cannot be changed: create a new AgentSession that adopts the history"},
		"an adopted history dropped":       {before: "adoptUID: " + uid, after: "adoptUID: null", want: "adoptUID cannot be changed"},
		"a history adopted too late":       {after: "adoptUID: " + uid, want: "adoptUID cannot be changed"},
		"a server that a subagent needs":   {before: server("allow: [a]") + "\nsubagents: [{name: a, description: d, toolServers: [t]}]", after: "toolServers: null", want: "add it to spec.toolServers or remove it"},
		"a tool that approval is kept for": {before: server("allow: [a], requireApproval: [a]"), after: server("allow: [b], requireApproval: [a]"), want: "add it to allow or remove it"},
	})
}
