package s3store

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Encryption is the server-side encryption that is asked for.
type Encryption string

const (
	// EncryptionNone leaves encryption to the bucket's own settings.
	EncryptionNone Encryption = ""
	// EncryptionS3 asks for encryption under keys of the server (SSE-S3).
	EncryptionS3 Encryption = "AES256"
	// EncryptionKMS asks for encryption under a key of a key management service (SSE-KMS).
	EncryptionKMS Encryption = "aws:kms"
)

// Addressing says how the bucket stands in URLs.
type Addressing string

const (
	// AddressingAuto is what the endpoint's host suggests: the bucket in the host name for AWS, in the path elsewhere.
	AddressingAuto Addressing = ""
	// AddressingPath puts the bucket in the path.
	AddressingPath Addressing = "path"
	// AddressingHost puts the bucket in the host name.
	AddressingHost Addressing = "host"
)

// Options say where objects are kept and how.
type Options struct {
	// Endpoint is the server's URL without a path: https://s3.eu-central-1.amazonaws.com.
	Endpoint string
	// Region is what requests are signed for; "us-east-1" by default, which servers other than AWS take.
	Region string
	Bucket string
	// Prefix is put before every key, without slashes at its ends; empty for none.
	Prefix string
	// AccessKey and SecretKey, with SessionToken for temporary ones, are the account. When all are empty, the identity
	// of the environment is used: a web identity token, or the role of the machine.
	AccessKey, SecretKey, SessionToken string
	// CABundle holds PEM certificates that are trusted besides the system's.
	CABundle   []byte
	Addressing Addressing
	// Encryption, when set, must be confirmed by the server for every object.
	Encryption Encryption
	// KMSKey names the key for EncryptionKMS; empty for the bucket's default key.
	KMSKey string
	// RefreshAfter is the age, by the server's clock, from which an object that is put again is written again, so that
	// a sweep of unreferenced objects sees it as young: at most half of the sweep's grace. 12 hours by default.
	RefreshAfter time.Duration
	Retry        Retry
	// Log gets warnings about what is odd but was dealt with; nil discards them.
	Log *slog.Logger

	// pageSize is the number of keys of one listing, smaller in tests.
	pageSize int
}

// Retry bounds the attempts of one call.
type Retry struct {
	// Attempts is the number of requests for the same thing; 6 by default.
	Attempts int
	// First and Most bound the pause after a failed attempt, which doubles from First and is drawn at random below that;
	// 100 ms and 5 s by default. A server that says it is overloaded is given four times as much.
	First, Most time.Duration
	// Attempt bounds one request with its answer; 1 minute by default.
	Attempt time.Duration
	// Answer bounds the time from the end of a request to the beginning of its answer; 15 s by default. A server that hung has often lost
	// the requests that it had then: a save that waits for such an answer holds its run up, and asking again costs nothing.
	Answer time.Duration
}

func (r Retry) negative() bool {
	return r.Attempts < 0 || r.First < 0 || r.Most < 0 || r.Attempt < 0 || r.Answer < 0
}

const (
	defaultRegion       = "us-east-1"
	defaultRefreshAfter = 12 * time.Hour
)

// prefixPattern keeps keys to what file systems and URLs carry unchanged.
var prefixPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$`)

func (o Options) withDefaults() (Options, error) {
	if err := o.validate(); err != nil {
		return Options{}, fmt.Errorf("S3 options: %w", err)
	}
	o.Region = orDefault(o.Region, defaultRegion)
	o.RefreshAfter = orDefault(o.RefreshAfter, defaultRefreshAfter)
	o.pageSize = orDefault(o.pageSize, pageSize)
	o.Retry.Attempts = orDefault(o.Retry.Attempts, 6)
	o.Retry.First = orDefault(o.Retry.First, 100*time.Millisecond)
	o.Retry.Most = orDefault(o.Retry.Most, 5*time.Second)
	o.Retry.Attempt = orDefault(o.Retry.Attempt, time.Minute)
	o.Retry.Answer = orDefault(o.Retry.Answer, 15*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

func (o Options) validate() error {
	if err := checkEndpoint(o.Endpoint); err != nil {
		return err
	}
	switch {
	case o.Prefix != "" && !prefixPattern.MatchString(o.Prefix):
		return fmt.Errorf("prefix %q must be words of letters, digits, dots and dashes with slashes between them", o.Prefix)
	case (o.AccessKey == "") != (o.SecretKey == ""):
		return errors.New("access key and secret key must be given together")
	case o.SessionToken != "" && o.AccessKey == "":
		return errors.New("a session token needs an access key")
	case o.Encryption != EncryptionNone && o.Encryption != EncryptionS3 && o.Encryption != EncryptionKMS:
		return fmt.Errorf("encryption %q is unknown", o.Encryption)
	case o.KMSKey != "" && o.Encryption != EncryptionKMS:
		return errors.New("a KMS key needs KMS encryption")
	case o.Addressing != AddressingAuto && o.Addressing != AddressingPath && o.Addressing != AddressingHost:
		return fmt.Errorf("addressing %q is unknown", o.Addressing)
	case o.RefreshAfter < 0 || o.Retry.negative():
		return errors.New("durations and attempts must not be negative")
	}
	if err := s3utils.CheckValidBucketNameStrict(o.Bucket); err != nil {
		return fmt.Errorf("bucket %q: %w", o.Bucket, err)
	}
	return nil
}

func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("endpoint %q must be an http or https URL", endpoint)
	case u.Host == "" || u.User != nil || u.RawQuery != "" || (u.Path != "" && u.Path != "/"):
		return fmt.Errorf("endpoint %q must have a host and nothing behind it: signatures do not survive a path", u.Redacted())
	}
	return nil
}

func newClient(o Options) (*minio.Core, *transport, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, nil, fmt.Errorf("S3 endpoint: %w", err)
	}
	base, err := newHTTPTransport(o)
	if err != nil {
		return nil, nil, err
	}
	t := &transport{base: base}
	core, err := minio.NewCore(u.Host, &minio.Options{
		Creds:        o.credentials(),
		Secure:       u.Scheme == "https",
		Transport:    t,
		Region:       o.Region,
		BucketLookup: o.lookup(),
		// One attempt: retries are the store's, with the caller's context and what is known about the outcome.
		MaxRetries: 1,
		// Small servers store the chunked form wrongly, and it would drop the payload hash.
		TrailingHeaders: false,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("S3 client: %w", err)
	}
	return core, t, nil
}

func (o Options) credentials() *credentials.Credentials {
	if o.AccessKey == "" {
		return credentials.NewIAM("")
	}
	return credentials.NewStaticV4(o.AccessKey, o.SecretKey, o.SessionToken)
}

func (o Options) lookup() minio.BucketLookupType {
	switch o.Addressing {
	case AddressingPath:
		return minio.BucketLookupPath
	case AddressingHost:
		return minio.BucketLookupDNS
	}
	return minio.BucketLookupAuto
}

// serverSide returns what puts ask the server to encrypt with, or nil.
func (o Options) serverSide() (encrypt.ServerSide, error) {
	switch o.Encryption {
	case EncryptionS3:
		return encrypt.NewSSE(), nil
	case EncryptionKMS:
		return encrypt.NewSSEKMS(o.KMSKey, nil)
	}
	return nil, nil //nolint:nilnil // what the client library takes for "ask for nothing"
}

func newHTTPTransport(o Options) (*http.Transport, error) {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: o.Retry.Answer,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   64,
		ForceAttemptHTTP2:     true,
		// A body that was compressed on the way has another length than the one that is checked.
		DisableCompression: true,
	}
	if len(o.CABundle) == 0 {
		return t, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(o.CABundle) {
		return nil, errors.New("S3 options: the CA bundle holds no PEM certificate")
	}
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}

// describe names the place for messages, without credentials.
func (o Options) describe() string {
	return strings.TrimSuffix(o.Endpoint, "/") + "/" + o.Bucket
}
