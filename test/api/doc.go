// Package api holds the tests of what a real API server makes of the CRDs in config/crd: which objects it refuses and
// with which words, what it fills in, what it lets change, and which tables it prints. It has no other code, so that
// api/v1alpha1 stays free of client and server packages.
//
// Guarantees: the tests need KUBEBUILDER_ASSETS and fail without it; one API server serves the whole package.
package api
