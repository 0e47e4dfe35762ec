package runevent

import "crypto/sha256"

// TraceID is the OpenTelemetry trace of a run that is part of no other, SpanID that of the run's own span. They are made from
// what the run is called, so that everybody who tells of it has the same.
func TraceID(agentKey, runUID string) [16]byte {
	sum := traceSum("trace", agentKey, runUID)
	return [16]byte(sum[:16])
}

// SpanID is described with TraceID.
func SpanID(agentKey, runUID string) [8]byte {
	sum := traceSum("run", agentKey, runUID)
	return [8]byte(sum[:8])
}

// traceSum is never zero at its beginning, which stands for no id.
func traceSum(kind, agentKey, runUID string) [32]byte {
	sum := sha256.Sum256([]byte("agentloop/" + kind + "/" + agentKey + "/" + runUID))
	sum[0] |= 1
	return sum
}
