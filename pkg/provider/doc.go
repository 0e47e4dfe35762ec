// Package provider holds the words that the engine and every model adapter share: model metadata, one request and
// its streamed response, the ports to ask a model and to ask what a provider tells about its models, and the error classes.
//
// Guarantees: it imports no SDK and does no I/O; a Request is complete (an adapter adds nothing of its own but the
// provider's wire form); one Stream call is at most one HTTP request.
package provider
