// Package main is CoreDNS with the plugins that answer for a cluster's Services, and no others: most of what its own main
// holds speaks to clouds, and would only be downloaded and linked. It is built for tests on a real node only.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() { coremain.Run() }
