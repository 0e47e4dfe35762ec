// Package natslog keeps run-event streams in one JetStream stream: each runevent.Stream is a subject of it.
//
// Guarantees: the whole contract of runevent.Log over reconnects, restarts and kills of servers. An append is one
// publish that is fenced by the position of the subject's last message, and at most one per stream is in flight; any
// answer that is not a plain acknowledgement is settled by reading the subject's last message from the stream's leader,
// never by trusting an error or the duplicate window. Nothing is deleted but by Purge. Calls go on trying while the
// server is away, until their context ends; then they fail with runevent.ErrUnavailable.
//
// docs/operations/nats.md says how the server is to be set up.
package natslog
