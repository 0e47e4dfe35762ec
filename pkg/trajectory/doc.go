// Package trajectory is the read model of a session: an index of what its agents did, the details of one entry, the
// conversation and the export, all derived from run events and the objects that they name.
//
// Guarantees: nothing is written; an object is read only when a run event of the session, or an object reached from one,
// names it; an entry is associated with another one only by recorded identities, never by likeness or nearness; what was
// not recorded is absent, never made up; a record or object that is missing, damaged or of a newer format becomes a
// notice, and reading goes on; Redact is applied to every document that leaves through Encode, Export and Contents.
package trajectory
