// Package page tests the viewer's page in a headless Chromium.
//
// Guarantees: the browser talks to the real trajectory server over sessions that the real agent loop has recorded; every
// check fails on a violation of the page's security policy and on an error in the browser's console.
package page
