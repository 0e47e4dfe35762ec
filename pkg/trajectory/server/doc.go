// Package server is the trajectory API over HTTP and the host of the viewer's page.
//
// Guarantees: only GET and HEAD are answered; who asks and what they may read is decided before anything of a session is
// looked at, so that a refusal says nothing about what exists; nothing is written to the log or the store; every JSON
// body has gone through trajectory.Redact; no store address, token or store error is echoed; a failed export is broken
// off and never looks complete.
package server
