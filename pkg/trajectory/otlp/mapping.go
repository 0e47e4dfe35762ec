package otlp

// The conventions that the names below are from. docs/format/otlp.md has the mapping in words; it has a version of its own,
// which is that of the instrumentation scope: it grows when an attribute gets another name or meaning.
const (
	SchemaURL      = "https://opentelemetry.io/schemas/1.41.0"
	ScopeName      = "github.com/agentloop/agentloop/pkg/trajectory/otlp"
	MappingVersion = "1"
)

// Names of the conventions.
const (
	attrServiceName  = "service.name"
	attrK8sNamespace = "k8s.namespace.name"
	attrErrorType    = "error.type"

	attrOperation     = "gen_ai.operation.name"
	attrProvider      = "gen_ai.provider.name"
	attrConversation  = "gen_ai.conversation.id"
	attrAgentID       = "gen_ai.agent.id"
	attrAgentName     = "gen_ai.agent.name"
	attrRequestModel  = "gen_ai.request.model"
	attrMaxTokens     = "gen_ai.request.max_tokens" //nolint:gosec // a count of tokens
	attrStream        = "gen_ai.request.stream"
	attrResponseID    = "gen_ai.response.id"
	attrFinishReasons = "gen_ai.response.finish_reasons"
	attrFirstChunk    = "gen_ai.response.time_to_first_chunk"

	attrInputTokens     = "gen_ai.usage.input_tokens"  //nolint:gosec // a count of tokens
	attrOutputTokens    = "gen_ai.usage.output_tokens" //nolint:gosec // a count of tokens
	attrCacheRead       = "gen_ai.usage.cache_read.input_tokens"
	attrCacheCreation   = "gen_ai.usage.cache_creation.input_tokens"
	attrReasoningTokens = "gen_ai.usage.reasoning.output_tokens" //nolint:gosec // a count of tokens

	attrSystem         = "gen_ai.system_instructions"
	attrInputMessages  = "gen_ai.input.messages"
	attrOutputMessages = "gen_ai.output.messages"
	attrDefinitions    = "gen_ai.tool.definitions"

	attrToolName   = "gen_ai.tool.name"
	attrToolType   = "gen_ai.tool.type"
	attrToolCall   = "gen_ai.tool.call.id"
	attrArguments  = "gen_ai.tool.call.arguments"
	attrToolResult = "gen_ai.tool.call.result"
	attrMCPMethod  = "mcp.method.name"
)

// Values of the conventions.
const (
	opInvokeAgent = "invoke_agent"
	opChat        = "chat"
	opExecuteTool = "execute_tool"

	toolFunction  = "function"
	methodCall    = "tools/call"
	providerClaud = "anthropic"
	providerOpen  = "openai"
)

// own is what begins every name that is not from the conventions.
const own = "agentloop."

// Our own names.
const (
	ownSessionUID  = own + "session.uid"
	ownSessionName = own + "session.name"
	ownExportedAt  = own + "export.time"
	ownSpans       = own + "export.spans"
	ownUntimed     = own + "export.untimed"
	ownNotices     = own + "export.notices"
	ownContent     = own + "export.content"

	ownEntry     = own + "entry.id"
	ownSequence  = own + "entry.sequence"
	ownTitle     = own + "entry.title"
	ownStatus    = own + "entry.status"
	ownInput     = own + "entry.input"
	ownAdjusted  = own + "entry.clock_adjusted"
	ownMissing   = own + "entry.notices"
	ownRunUID    = own + "run.uid"
	ownRunName   = own + "run.name"
	ownRunStatus = own + "run.status"
	ownRunReason = own + "run.reason"
	ownOperation = own + "run.operation"
	ownAttempts  = own + "run.attempts"
	ownTurns     = own + "run.turns"
	ownRequests  = own + "run.requests"
	ownUnused    = own + "run.requests_without_usage"
	ownToolCalls = own + "run.tool_calls"
	ownConfig    = own + "run.config"

	ownTurn       = own + "turn"
	ownPurpose    = own + "request.purpose"
	ownExecution  = own + "request.execution_id"
	ownContext    = own + "context.digest"
	ownInputSum   = own + "input.digest"
	ownInputSize  = own + "input.bytes"
	ownVerified   = own + "input.verified"
	ownSources    = own + "input.sources."
	ownBudget     = own + "budget."
	ownEstimator  = own + "budget.estimator"
	ownState      = own + "state.digest"
	ownCompaction = own + "compaction.id"
	ownProvider   = own + "provider"
	ownCost       = own + "usage.cost_usd"
	ownHTTPStatus = own + "http_status"
	ownToolServer = own + "tool.server"
	ownToolTries  = own + "tool.attempts"
)
