// Package chart tests the Helm chart: what it renders, what its schema refuses, and what installing, upgrading, rolling back
// and removing it does to a real API server with the real controller manager.
package chart
