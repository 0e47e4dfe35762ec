import type { components } from "./types";

// Short names for what the API answers, as its document defines it.

type Schemas = components["schemas"];

export type Agent = Schemas["Agent"];
export type AgentState = Schemas["AgentState"];
export type Approval = Schemas["Approval"];
export type Assembly = Schemas["Assembly"];
export type Block = Schemas["Block"];
export type ContextBudget = Schemas["ContextBudget"];
export type Counts = Schemas["Counts"];
export type Detail = Schemas["Detail"];
export type Entry = Schemas["Entry"];
export type EntryStatus = Schemas["EntryStatus"];
export type Failure = Schemas["Failure"];
export type HistoryMessage = Schemas["HistoryMessage"];
export type InputMessage = Schemas["InputMessage"];
export type InputTool = Schemas["InputTool"];
export type Message = Schemas["Message"];
export type MessageList = Schemas["MessageList"];
export type ModelInput = Schemas["ModelInput"];
export type ModelOutput = Schemas["ModelOutput"];
export type NestedCall = Schemas["NestedCall"];
export type Notice = Schemas["Notice"];
export type Problem = Schemas["Problem"];
export type RealTime = Schemas["RealTime"];
export type Run = Schemas["Run"];
export type RunName = Schemas["RunName"];
export type Session = Schemas["Session"];
export type SessionList = Schemas["SessionList"];
export type SessionSummary = Schemas["SessionSummary"];
export type SkillExpansion = Schemas["SkillExpansion"];
export type Source = Schemas["Source"];
export type SystemPrompt = Schemas["SystemPrompt"];
export type SystemSection = Schemas["SystemSection"];
export type TextContent = Schemas["TextContent"];
export type ToolContent = Schemas["ToolContent"];
export type Totals = Schemas["Totals"];
export type Trajectory = Schemas["Trajectory"];
export type Usage = Schemas["Usage"];
export type WholeText = Schemas["WholeText"];
