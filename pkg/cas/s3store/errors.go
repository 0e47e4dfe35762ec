package s3store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/agentloop/agentloop/pkg/cas"
)

var (
	// ErrClockSkew is returned when the server refuses requests because its clock and ours differ too much. Trying again
	// at once is of no use.
	ErrClockSkew = errors.New("clocks differ too much")
	// ErrDenied is returned when the server refuses the account or the signature.
	ErrDenied = errors.New("access denied by the S3 server")
	// ErrNoBucket is returned when the bucket does not exist.
	ErrNoBucket = errors.New("no such bucket")
	// ErrNotEncrypted is returned when the server did not confirm the encryption that the options ask for.
	ErrNotEncrypted = errors.New("the server does not confirm server-side encryption")
	// ErrUnreachable is returned when the endpoint cannot be spoken to in the way the options say: a certificate that is
	// not trusted, TLS against a plain port.
	ErrUnreachable = errors.New("the endpoint cannot be spoken to")
)

// again marks an error that another attempt may cure although it would be final otherwise.
type again struct{ error }

func (a again) Unwrap() error { return a.error }

func isCorrupt(err error) bool { return errors.Is(err, cas.ErrCorrupt) }

// class is what an error means for the call that met it.
type class int

const (
	classNone        class = iota
	classRetry             // the outcome is unknown or the server could not
	classSlow              // the server is overloaded
	classExists            // a conditional put found the key taken
	classMissing           // the key is not there
	classUnsupported       // the server does not know this kind of request
	classFinal             // the same request will fail again
)

// classify sorts an error of the client library. S3 codes decide before statuses do.
func classify(err error) class {
	if err == nil {
		return classNone
	}
	var marked again
	if errors.As(err, &marked) {
		return classRetry
	}
	if cas.IsFinal(err) || isOurFinal(err) {
		return classFinal
	}
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		if isTLS(err) {
			return classFinal
		}
		return classRetry // no answer: connection refused, reset, timed out
	}
	switch answer.Code {
	case "SlowDown", "SlowDownWrite", "SlowDownRead", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests", "ServiceUnavailable":
		return classSlow
	case "BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody", "RequestTimeout", "InternalError":
		return classRetry // the bytes were spoilt on the way, or the server stumbled
	case "NoSuchKey":
		return classMissing // no other 404 says that the object is missing
	case "NotImplemented", "APINotSupported":
		return classUnsupported
	case "NoSuchBucket", "RequestTimeTooSkewed":
		return classFinal
	}
	return classifyStatus(answer.StatusCode)
}

func classifyStatus(status int) class {
	switch status {
	case http.StatusPreconditionFailed:
		return classExists
	case http.StatusNotImplemented:
		return classUnsupported
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return classSlow
	case http.StatusConflict, http.StatusRequestTimeout:
		return classRetry // 409: somebody else is writing the key just now
	}
	if status >= 400 && status < 500 || status >= 300 && status < 400 {
		return classFinal
	}
	return classRetry
}

func isOurFinal(err error) bool {
	for _, final := range []error{ErrClockSkew, ErrDenied, ErrNoBucket, ErrNotEncrypted, ErrUnreachable, errListingLoops} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

func isTLS(err error) bool {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	return errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &invalid) || errors.As(err, &record) ||
		errors.Is(err, http.ErrSchemeMismatch)
}

// explain gives an error of the client library the sentinel and the advice that its reader needs.
func (s *Store) explain(err error) error {
	if err == nil || cas.IsFinal(err) || isOurFinal(err) {
		return err
	}
	if isTLS(err) {
		return fmt.Errorf("%w (%s): %w", ErrUnreachable, s.opts.Endpoint, err)
	}
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		return err
	}
	err = fmt.Errorf("S3 server answered %d %s: %w", answer.StatusCode, answer.Code, err)
	switch {
	case answer.Code == "RequestTimeTooSkewed":
		return s.explainSkew(err)
	case answer.Code == "NoSuchBucket":
		return fmt.Errorf("%w: %s: %w", ErrNoBucket, s.opts.describe(), err)
	case answer.Code == "NoSuchKey":
		return fmt.Errorf("%w: %w", cas.ErrNotFound, err)
	case answer.Code == "SignatureDoesNotMatch":
		return fmt.Errorf("%w: wrong secret key or region, or a proxy before %s changes the Host header or the path: %w", ErrDenied, s.opts.Endpoint, err)
	case answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusUnauthorized || answer.Code == "XAdminUserNotFound":
		return fmt.Errorf("%w: %s: %w", ErrDenied, s.opts.describe(), err)
	}
	return err
}

func (s *Store) explainSkew(err error) error {
	offset, ok := s.transport.clockOffset()
	if !ok {
		return fmt.Errorf("%w: %w", ErrClockSkew, err)
	}
	direction := "behind"
	if offset < 0 {
		direction, offset = "ahead of", -offset
	}
	return fmt.Errorf("%w: this machine's clock is %s %s that of %s; check its time synchronisation: %w",
		ErrClockSkew, offset.Round(time.Minute), direction, s.opts.Endpoint, err)
}

// retry calls once until it succeeds, fails for good, or has had its attempts. Each attempt has a bounded time of its
// own; the pauses between them are drawn at random, so that many clients do not come back together.
func (s *Store) retry(ctx context.Context, once func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		attemptCtx, cancel := context.WithTimeout(ctx, s.opts.Retry.Attempt)
		err := once(attemptCtx)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		kind := classify(err)
		if kind != classRetry && kind != classSlow {
			return s.explain(err)
		}
		if attempt >= s.opts.Retry.Attempts {
			return fmt.Errorf("gave up after %d attempts: %w", attempt, s.explain(err))
		}
		if err := pause(ctx, s.opts.Retry.delay(attempt, kind)); err != nil {
			return err
		}
	}
}

// delay draws the pause after a failed attempt, between half and all of what is due.
func (r Retry) delay(attempt int, kind class) time.Duration {
	due, most := r.First, r.Most
	if kind == classSlow {
		due, most = 4*due, 4*most
	}
	for range attempt - 1 {
		if due >= most {
			break
		}
		due *= 2
	}
	due = min(due, most)
	return due/2 + rand.N(due/2+1)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
