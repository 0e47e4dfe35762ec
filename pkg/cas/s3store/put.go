package s3store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/codec"
)

// upload is one object on its way to the server.
type upload struct {
	key     string
	ref     cas.Ref
	encoded []byte
	sum     [sha256.Size]byte
	// replace is set once the object that is there was found damaged or old: it is then written over.
	replace bool
}

// Put implements cas.Store.
//
// The put is conditional, so that bytes that are there already are neither written again nor, on versioned buckets,
// kept twice. "Already there" is believed only after reading: a server may have published the beginning of an upload
// whose connection broke. When the outcome of an attempt is unknown, the same bytes are put again.
func (s *Store) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	if err := begin(ctx, scope); err != nil {
		return cas.Ref{}, err
	}
	encoded, err := codec.Encode(data)
	if err != nil {
		return cas.Ref{}, err
	}
	ref := cas.Ref{Digest: cas.Of(data), Size: int64(len(data)), MediaType: mediaType}
	key, err := s.objectKey(scope, ref.Digest)
	if err != nil {
		return cas.Ref{}, err
	}
	u := &upload{key: key, ref: ref, encoded: encoded, sum: sha256.Sum256(encoded)}
	if err := s.retry(ctx, func(ctx context.Context) error { return s.putOnce(ctx, u) }); err != nil {
		return cas.Ref{}, fmt.Errorf("put %s: %w", ref.Digest, err)
	}
	return ref, nil
}

func (s *Store) putOnce(ctx context.Context, u *upload) error {
	conditional := !u.replace && !s.unconditional.Load()
	if !conditional && !u.replace {
		there, err := s.alreadyThere(ctx, u)
		if there || err != nil {
			return err
		}
	}
	err := s.send(ctx, u, conditional)
	switch kind := classify(err); {
	case kind == classExists:
		there, err := s.alreadyThere(ctx, u)
		if there || err != nil {
			return err
		}
		return s.sendRest(ctx, u)
	case kind == classUnsupported && conditional:
		s.unconditional.Store(true)
		s.opts.Log.WarnContext(ctx, "S3 server knows no conditional writes; objects are looked up before they are put", "endpoint", s.opts.Endpoint)
		return again{err}
	}
	return err
}

// sendRest follows a condition that failed although nothing usable is there: damaged or old objects are written over; a
// key that has vanished meanwhile is another attempt's matter.
func (s *Store) sendRest(ctx context.Context, u *upload) error {
	if !u.replace {
		return again{errors.New("the server refuses the put of a key that is not there")}
	}
	return s.send(ctx, u, false)
}

// alreadyThere says whether the object is in the store, verified and young enough. When it is there but not so, it
// marks the upload to replace it.
func (s *Store) alreadyThere(ctx context.Context, u *upload) (bool, error) {
	found, err := s.read(ctx, u.key, u.ref)
	switch {
	case err == nil && found.age <= s.opts.RefreshAfter:
		return true, nil
	case err == nil:
		u.replace = true
		return false, nil
	case isCorrupt(err) || errors.Is(err, cas.ErrTooLarge):
		s.opts.Log.WarnContext(ctx, "replacing a damaged object", "digest", u.ref.Digest.String())
		u.replace = true
		return false, nil
	case errors.Is(err, cas.ErrNotFound):
		return false, nil
	}
	return false, err
}

// send makes one PUT request for an upload.
func (s *Store) send(ctx context.Context, u *upload, conditional bool) error {
	return s.putRequest(ctx, putRequest{key: u.key, body: u.encoded, payloadHash: u.sum, checksum: u.sum, conditional: conditional})
}

// putRequest is one PUT as it goes over the wire. Both hashes are of the body; the probe gives wrong ones.
type putRequest struct {
	key                   string
	body                  []byte
	payloadHash, checksum [sha256.Size]byte
	conditional           bool
}

// putRequest sends one PUT. The payload is signed by its hash and goes in one piece: multipart uploads drop the
// condition, and the chunked form has been seen stored with its framing.
func (s *Store) putRequest(ctx context.Context, r putRequest) error {
	sse, err := s.opts.serverSide()
	if err != nil {
		return fmt.Errorf("%w: encryption: %w", cas.ErrInvalid, err)
	}
	opts := minio.PutObjectOptions{
		ContentType:          "application/octet-stream",
		DisableContentSha256: true,
		ServerSideEncryption: sse,
		UserMetadata:         map[string]string{checksumHeader: base64.StdEncoding.EncodeToString(r.checksum[:])},
	}
	if r.conditional {
		opts.SetMatchETagExcept("*")
	}
	info, err := s.core.PutObject(ctx, s.opts.Bucket, r.key, bytes.NewReader(r.body), int64(len(r.body)), "", hex.EncodeToString(r.payloadHash[:]), opts)
	if err == nil && info.ETag == "" {
		return errors.New("the answer to a put has no ETag: it did not come from an S3 server")
	}
	return err
}

const checksumHeader = "X-Amz-Checksum-Sha256"

// object is what was read under a key, verified.
type object struct {
	data []byte
	// age is by the server's clock.
	age time.Duration
}

// read makes one GET request. Its errors are those of cas.Store.Get for what the server holds; a body that ends before
// its announced length is an error of the connection, not of the object.
func (s *Store) read(ctx context.Context, key string, ref cas.Ref) (object, error) {
	got, err := s.fetch(ctx, key, codec.MaxEncoded(codec.Limit(ref)))
	if err != nil {
		return object{}, err
	}
	data, err := codec.DecodeVerified(got.data, ref)
	if err != nil {
		return object{}, err
	}
	return object{data: data, age: got.age}, nil
}

// fetch reads the bytes under a key, at most as many, as they are.
func (s *Store) fetch(ctx context.Context, key string, most int64) (object, error) {
	body, info, header, err := s.core.GetObject(ctx, s.opts.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		if classify(err) == classMissing {
			return object{}, fmt.Errorf("%w: %w", cas.ErrNotFound, err)
		}
		return object{}, err
	}
	defer func() { _ = body.Close() }() // only read
	if info.Size > most {
		return object{}, fmt.Errorf("%w: stored in %d bytes, at most %d are possible", cas.ErrTooLarge, info.Size, most)
	}
	data, err := cas.ReadAtMost(body, most)
	if err != nil {
		return object{}, err
	}
	if info.Size >= 0 && int64(len(data)) < info.Size {
		return object{}, fmt.Errorf("body ended after %d of %d bytes: %w", len(data), info.Size, io.ErrUnexpectedEOF)
	}
	return object{data: data, age: age(info.LastModified, header)}, nil
}

// age is the time since an object was written, both by the server's clock; zero when the server does not say.
func age(written time.Time, header http.Header) time.Duration {
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil || written.IsZero() {
		return 0
	}
	return now.Sub(written)
}
