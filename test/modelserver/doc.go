// Package modelserver is a model provider for tests, benchmarks and demonstrations: it answers from a script
// (docs/format/modelscript.md) and speaks the Anthropic Messages, OpenAI Chat Completions and OpenAI Responses
// protocols, streaming and not.
//
// Guarantees: a request that a real provider would refuse is refused here too, with the provider's status, error shape
// and wording, before any reply of the script is used up; every request is kept byte for byte (credentials excepted)
// until its model is unloaded or the recording limit pushes it out; the same script and the same sequence of requests
// give the same bytes, creation times excepted; a Server is safe for concurrent use and never logs or prints contents.
//
// A Server keeps no conversation. Thinking signatures and encrypted reasoning carry their own proof (a keyed digest
// over the content and the request prefix), so they verify after a restart as long as the signing key is the same.
package modelserver
