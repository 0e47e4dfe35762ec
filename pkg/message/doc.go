// Package message is the conversation vocabulary: messages, their blocks and the one JSON form in which they are
// stored, hashed and exchanged.
//
// Guarantees: encoding is deterministic (fixed key order, no HTML escaping, no trailing newline, invalid UTF-8
// becomes U+FFFD); tool arguments are kept as compact JSON with their key order and their exact numbers; string
// content and block content are different values and stay different; a Message is an immutable value once built,
// so packages share it freely and copy only where a caller may change it.
package message
