// Package chaos kills workers at every named point of the loop, in whole stories on a real API server, NATS and S3, and
// holds that the story ends as it would have ended undisturbed.
//
// Guarantees: after each kill the run comes to its end; nothing that was in the log before the kill is missing or changed
// after it; the final history is that of the undisturbed story, but for calls of tools that are not repeatable and whose
// effect is told as unknown; no such tool has taken effect more than once.
package chaos
