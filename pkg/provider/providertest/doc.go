// Package providertest is the conformance suite of provider.Streamer, and the small server with scripted faults that it
// runs the adapters against. It is imported by tests only.
//
// Guarantees: Run holds for every adapter, whatever its protocol; no case waits for a fixed time to pass other than a
// timeout under test; nothing outside this machine is contacted.
package providertest

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
)

var discardLog = log.New(io.Discard, "", 0)

func certificatePEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
