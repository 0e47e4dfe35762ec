// Package e2e tests an installation by the chart on a real node, from inside the node's namespaces: hack/e2e.sh brings the node
// up, imports the images and runs these tests, in order, one after another.
package e2e
