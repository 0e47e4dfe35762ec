// Package kubeauth lets the Kubernetes API server decide who may read trajectories, and looks sessions up there.
//
// Guarantees: a caller is who TokenReview says, and may read what SubjectAccessReview says; there is no other way in.
// Decisions are remembered for seconds only, a token never beyond its own expiry, and a failure of the API server is
// never remembered nor taken for a yes.
package kubeauth
