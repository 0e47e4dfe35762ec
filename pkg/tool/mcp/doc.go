// Package mcp is the adapter of tool.Set to MCP servers over streamable HTTP.
//
// Guarantees: Connect asks every server once for its tools and then keeps to that list, in an order and under names
// that depend on nothing but the servers' and tools' names; an empty allow list admits nothing. Call never hands the
// engine more than the configured bytes, valid UTF-8, and an image that no model provider would refuse; it holds at
// most a bounded part of any answer in memory. A call that may have reached its server is sent a second time only when
// the tool is repeatable, and the result's details say so. Every failure of a server, from a refused connection to an
// answer in HTML, is a result that the model can read, and leaves the set usable. Credentials are sent to the server
// that they belong to and to no other: redirects are not followed, addresses are checked after name resolution, and
// configured secrets are blanked in everything that comes back. Sets may share connections, which are closed when nobody has
// used them for a while, and share nothing else. Close ends what is running and leaves no goroutine.
package mcp
