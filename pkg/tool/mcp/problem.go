package mcp

import (
	"strings"
)

// ProblemReason is why something of a server is missing from the set.
type ProblemReason string

// The reasons of problems.
const (
	// ReasonUnreachable: no connection, no answer in time, or an error status that may pass.
	ReasonUnreachable ProblemReason = "Unreachable"
	// ReasonAuthFailed: the server refused the credentials.
	ReasonAuthFailed ProblemReason = "AuthFailed"
	// ReasonAddressRefused: the address policy forbids to dial the server.
	ReasonAddressRefused ProblemReason = "AddressRefused"
	// ReasonInvalidConfig: the configuration could never work.
	ReasonInvalidConfig ProblemReason = "InvalidConfig"
	// ReasonProtocol: what answers is not a usable MCP server.
	ReasonProtocol ProblemReason = "Protocol"
	// ReasonToolNotFound: a list of the configuration names a tool that the server does not have or that is not allowed.
	ReasonToolNotFound ProblemReason = "ToolNotFound"
	// ReasonToolSkipped: a tool that the server has cannot be offered to a model.
	ReasonToolSkipped ProblemReason = "ToolSkipped"
)

// maxProblemText bounds a problem's message in bytes.
const maxProblemText = 240

// ServerProblem is one thing that a person should know about a tool server. It holds no content and no secret.
type ServerProblem struct {
	Server string        `json:"server"`
	Reason ProblemReason `json:"reason"`
	// Tool is the tool concerned, if it is about one.
	Tool    string `json:"tool,omitempty"`
	Message string `json:"message"`
	// Unavailable says that the set has none of the server's tools.
	Unavailable bool `json:"unavailable,omitempty"`
	// Retryable says that the same may work later.
	Retryable bool `json:"retryable,omitempty"`
}

// UnavailableError is returned by Connect when tools of a server with the policy Fail cannot be had.
type UnavailableError struct {
	// Problems are those of the servers that made Connect fail; never empty.
	Problems []ServerProblem
}

// Error names each server and what to do.
func (e *UnavailableError) Error() string {
	parts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		parts[i] = "tool server " + p.Server + ": " + p.Message
	}
	return strings.Join(parts, "; ")
}

// Retryable says that connecting later may succeed: no problem needs a person.
func (e *UnavailableError) Retryable() bool {
	for _, p := range e.Problems {
		if !p.Retryable {
			return false
		}
	}
	return true
}
