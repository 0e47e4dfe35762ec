// Package kube is the engine's adapter to Kubernetes: it reads what a run needs, tells when a run is to end early, and
// converts between the resources and the engine's words.
//
// Guarantees: it writes nothing; Secrets are read one by one, in the run's own namespace, only with the credential
// label, and go nowhere but into the request that needs them; an error names objects and keys, never values.
package kube
