package mcp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
)

// passing says that the same request may succeed a moment later.
func (f facts) passing() bool {
	switch f.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return f.status == 0 && errors.Is(f.fault, syscall.ECONNREFUSED)
}

// problem says what a person can do about a server that could not be connected to or listed.
func (s *server) problem(err error) ServerProblem {
	p := ServerProblem{Server: s.cfg.Name, Unavailable: true}
	var failed *connectError
	if !errors.As(err, &failed) {
		failed = &connectError{err: err, timedOut: errors.Is(err, context.DeadlineExceeded)}
	}
	p.Reason, p.Message, p.Retryable = s.explain(failed)
	p.Message = s.redact.short(p.Message, maxProblemText)
	return p
}

func (s *server) explain(e *connectError) (ProblemReason, string, bool) {
	f := e.seen
	var redirect *redirectError
	var media *mediaError
	var endpoint *endpointError
	switch {
	case errors.Is(f.fault, ErrAddressRefused):
		return ReasonAddressRefused, f.fault.Error() + ": requests to this kind of address are not allowed here", false
	case errors.As(f.fault, &endpoint):
		return ReasonAddressRefused, endpoint.why, false
	case errors.As(f.fault, &redirect):
		return ReasonProtocol, fmt.Sprintf("answers with a redirect (HTTP %d), which is not followed: set url to the final address", redirect.status), false
	case f.tooLarge:
		return ReasonProtocol, fmt.Sprintf("its answer is larger than %d bytes", s.cfg.maxResponse(s.opts)), false
	case errors.As(f.fault, &media):
		return ReasonProtocol, fmt.Sprintf("is no MCP endpoint: it answers with %s; check the path of url", media.media), false
	case f.status == http.StatusUnauthorized || f.status == http.StatusForbidden:
		return ReasonAuthFailed, fmt.Sprintf("refuses the credentials (HTTP %d): check bearerTokenSecretRef and headers", f.status), false
	case f.passing() && f.status != 0:
		return ReasonUnreachable, fmt.Sprintf("is not ready (HTTP %d)", f.status), true
	case f.status >= 500:
		return ReasonUnreachable, fmt.Sprintf("fails (HTTP %d)", f.status), true
	case f.status >= 400:
		return ReasonProtocol, fmt.Sprintf("is no MCP endpoint: it answers with HTTP %d; check the path of url", f.status), false
	case e.timedOut:
		return ReasonUnreachable, fmt.Sprintf("did not answer within %s", s.opts.ConnectTimeout), true
	case f.status == 0 && f.fault != nil:
		text, passing := network(f.fault)
		return ReasonUnreachable, "cannot be reached: " + text, passing
	}
	if rpc := f.rpcError(); rpc != nil {
		return ReasonProtocol, "does not speak MCP as expected: it says " + rpc.String(), false
	}
	return ReasonProtocol, "does not speak MCP as expected", false
}

// network says in a few words why a connection failed, without addresses; and whether it may work later.
func network(err error) (string, bool) {
	var dns *net.DNSError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "its host name does not exist", true
	case errors.As(err, &dns):
		return "its host name could not be resolved", true
	case errors.As(err, &unknown):
		return "its certificate is not signed by a known authority: set caBundle", false
	case errors.As(err, &host):
		return "its certificate is for another host name", false
	case errors.As(err, &invalid):
		return "its certificate is not valid", false
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "it does not speak TLS: use http:// in url", false
	case errors.Is(err, ErrAddressRefused):
		return ErrAddressRefused.Error(), false
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused", true
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		return "connection closed by the server", true
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "timed out", true
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timed out", true
	}
	return "network error", true
}
