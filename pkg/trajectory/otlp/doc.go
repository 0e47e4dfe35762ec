// Package otlp writes a trajectory as OpenTelemetry spans in OTLP/JSON, named by the semantic conventions for generative AI.
//
// Guarantees: each line is one complete ExportTraceServiceRequest in the JSON mapping of OTLP; every name that is not from the
// conventions begins with "agentloop."; the same history has the same trace and span ids in every export; contents are written
// only when they were asked for; a count that was not recorded has no attribute; what has no reliable time has no span; one entry
// is held at a time besides the index.
package otlp
