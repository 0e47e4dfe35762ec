// Package sweep removes the objects of a session that nothing refers to: what crashed steps left behind.
//
// Guarantees: an object goes only if it is older than the grace by the store's own clock, if nothing that the session's
// events reach names it, archives and failed or cancelled runs included, and if the session did nothing meanwhile; whatever
// could not be read ends the sweep before anything is removed; what is removed is put back when the session turns out to
// have been used; without Apply nothing is changed. Any text that looks like a digest counts as a reference, also in
// objects and events of later formats.
package sweep
