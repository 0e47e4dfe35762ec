// Package kubernetes tests the MCP adapter against an MCP server for Kubernetes that others wrote, on a real API server.
//
// Guarantees: it needs the server, which is published for Linux on amd64, and the control plane to be installed, and fails,
// naming the make target, when one is not; everything listens on loopback and ends with the test.
package kubernetes
