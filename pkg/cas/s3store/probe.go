package s3store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/codec"
)

// ErrProbe is returned when the server or the bucket lacks what the store relies on.
var ErrProbe = errors.New("the S3 server does not pass the probe")

// Result is the outcome of one check.
type Result string

const (
	// ResultOK means that the server does what is expected.
	ResultOK Result = "ok"
	// ResultWarning means that the store works without it, at a cost that the detail names.
	ResultWarning Result = "warning"
	// ResultFailed means that the store must not be used.
	ResultFailed Result = "failed"
)

// Check is what was found about one ability of the server.
type Check struct {
	Name   string `json:"name"`
	Result Result `json:"result"`
	Detail string `json:"detail"`
	err    error
}

// Report is what a probe found.
type Report struct {
	// Place is endpoint and bucket.
	Place  string  `json:"place"`
	Checks []Check `json:"checks"`
}

// Err returns nil when nothing failed. Otherwise the error wraps ErrProbe and the causes of the failed checks.
func (r Report) Err() error {
	var failed []error
	for _, check := range r.Checks {
		if check.Result != ResultFailed {
			continue
		}
		err := fmt.Errorf("%s: %s", check.Name, check.Detail)
		if check.err != nil {
			err = fmt.Errorf("%s: %w", check.Name, check.err)
		}
		failed = append(failed, err)
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%w (%s): %w", ErrProbe, r.Place, errors.Join(failed...))
}

// String returns the report as a table for people.
func (r Report) String() string {
	var out strings.Builder
	fmt.Fprintln(&out, r.Place)
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, check := range r.Checks {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", check.Result, check.Name, check.Detail)
	}
	_ = table.Flush() // a strings.Builder takes everything
	return out.String()
}

// clockWarning is the difference of the clocks from which the report warns; servers refuse from 15 minutes on.
const clockWarning = time.Minute

// Probe tries out, on keys of its own that it removes again, what the store relies on: that what was written is read
// back and listed, that damaged uploads are refused, that the encryption of the options is confirmed. It also says what
// works less well without: conditional writes, checksums, agreeing clocks, a bucket without versions.
func (s *Store) Probe(ctx context.Context) Report {
	p := &probe{store: s, prefix: s.fullKey("probe/" + strings.ToLower(rand.Text()))}
	p.report.Place = s.opts.describe()
	defer p.cleanUp(ctx)
	if p.roundTrip(ctx) {
		p.conditional(ctx)
		p.integrity(ctx)
		p.listing(ctx)
		p.deletion(ctx)
		p.versions(ctx)
	}
	p.clock()
	return p.report
}

type probe struct {
	store  *Store
	prefix string
	report Report
}

func (p *probe) add(name string, result Result, detail string, err error) {
	p.report.Checks = append(p.report.Checks, Check{Name: name, Result: result, Detail: detail, err: err})
}

func (p *probe) fail(name string, err error) {
	p.add(name, ResultFailed, err.Error(), err)
}

func (p *probe) upload(name string) (*upload, error) {
	data := []byte("probe " + p.prefix + " " + name)
	encoded, err := codec.Encode(data)
	return &upload{
		key:     p.prefix + "/" + name,
		ref:     cas.Ref{Digest: cas.Of(data), Size: int64(len(data))},
		encoded: encoded,
		sum:     sha256.Sum256(encoded),
	}, err
}

// The keys of the probe.
const (
	probeFirst = "first"
	probeHash  = "hash"
	probeSum   = "sum"
)

// roundTrip writes an object and reads it back; without that the other checks mean nothing.
func (p *probe) roundTrip(ctx context.Context) bool {
	const name = "write and read"
	u, err := p.upload(probeFirst)
	if err != nil {
		p.fail(name, err)
		return false
	}
	err = p.store.retry(ctx, func(ctx context.Context) error { return p.store.send(ctx, u, false) })
	if errors.Is(err, ErrNotEncrypted) {
		p.fail("encryption", err)
		return false
	}
	if err == nil {
		err = p.store.retry(ctx, func(ctx context.Context) error {
			_, err := p.store.read(ctx, u.key, u.ref)
			return err
		})
	}
	if err != nil {
		p.fail(name, err)
		return false
	}
	p.add(name, ResultOK, "an object came back as it was written", nil)
	if want := p.store.opts.Encryption; want != EncryptionNone {
		p.add("encryption", ResultOK, "confirmed: "+string(want), nil)
	}
	return true
}

// ask sends a request that a good server refuses. It repeats only what got no clear answer.
func (p *probe) ask(ctx context.Context, r putRequest) error {
	var err error
	for attempt := 1; attempt <= p.store.opts.Retry.Attempts; attempt++ {
		err = p.store.putRequest(ctx, r)
		var answer minio.ErrorResponse
		if err == nil || errors.As(err, &answer) && answer.StatusCode < 500 {
			return err
		}
		if classify(err) == classUnsupported || pause(ctx, p.store.opts.Retry.delay(attempt, classify(err))) != nil {
			return err
		}
	}
	return err
}

func (p *probe) conditional(ctx context.Context) {
	const name = "conditional write"
	u, err := p.upload(probeFirst)
	if err != nil {
		p.fail(name, err)
		return
	}
	err = p.ask(ctx, putRequest{key: u.key, body: u.encoded, payloadHash: u.sum, checksum: u.sum, conditional: true})
	switch classify(err) {
	case classExists:
		p.add(name, ResultOK, "an existing object is not written again", nil)
	case classNone:
		p.add(name, ResultWarning, "the condition is ignored: objects that exist are written again", nil)
	case classUnsupported:
		p.store.unconditional.Store(true)
		p.add(name, ResultWarning, "not implemented: each put looks for its object first", nil)
	default:
		p.fail(name, p.store.explain(err))
	}
}

// integrity sends bodies that do not have the hash that goes with them. A server that stores them would one day store
// bytes that were damaged on the way.
func (p *probe) integrity(ctx context.Context) {
	wrong := sha256.Sum256([]byte("something else"))
	hash, hashErr := p.refuses(ctx, probeHash, func(r *putRequest) { r.payloadHash = wrong })
	sum, sumErr := p.refuses(ctx, probeSum, func(r *putRequest) { r.checksum = wrong })
	if err := errors.Join(hashErr, sumErr); err != nil {
		p.fail("payload hash", err)
		return
	}
	if !hash && !sum {
		p.add("payload hash", ResultFailed, "damaged uploads are accepted: neither the signed hash nor the checksum is verified", nil)
		return
	}
	for _, check := range []struct {
		name    string
		refuses bool
	}{{"payload hash", hash}, {"checksum", sum}} {
		if check.refuses {
			p.add(check.name, ResultOK, "a damaged upload is refused", nil)
			continue
		}
		p.add(check.name, ResultWarning, "not verified by the server; the other one is", nil)
	}
}

func (p *probe) refuses(ctx context.Context, name string, spoil func(*putRequest)) (bool, error) {
	u, err := p.upload(name)
	if err != nil {
		return false, err
	}
	r := putRequest{key: u.key, body: u.encoded, payloadHash: u.sum, checksum: u.sum}
	spoil(&r)
	err = p.ask(ctx, r)
	var answer minio.ErrorResponse
	if err == nil {
		return false, nil
	}
	if errors.As(err, &answer) && answer.StatusCode >= 400 && answer.StatusCode < 500 {
		return true, nil
	}
	return false, fmt.Errorf("no clear answer to a damaged upload: %w", p.store.explain(err))
}

func (p *probe) list(ctx context.Context) ([]string, error) {
	var keys []string
	err := p.store.pages(ctx, p.prefix+"/", func(page []string) error {
		keys = append(keys, page...)
		return nil
	})
	return keys, err
}

func (p *probe) listing(ctx context.Context) {
	const name = "listing"
	keys, err := p.list(ctx)
	switch {
	case err != nil:
		p.fail(name, err)
	case len(keys) == 0 || keys[0] != p.prefix+"/"+probeFirst:
		p.fail(name, fmt.Errorf("an object that was just written is not listed: %d keys", len(keys)))
	default:
		p.add(name, ResultOK, "a new object is listed at once", nil)
	}
}

func (p *probe) deletion(ctx context.Context) {
	const name = "deletion"
	keys, err := p.list(ctx)
	if err == nil {
		err = p.store.remove(ctx, keys)
	}
	if err != nil {
		p.fail(name, err)
		return
	}
	left, err := p.list(ctx)
	switch {
	case err != nil:
		p.fail(name, err)
	case len(left) > 0:
		p.fail(name, fmt.Errorf("%d deleted objects are still listed", len(left)))
	default:
		p.add(name, ResultOK, "deleted objects are gone", nil)
	}
}

// cleanUp removes what a check that failed has left, as far as the server lets it.
func (p *probe) cleanUp(ctx context.Context) {
	if p.report.Err() == nil {
		return // the check of deletions has seen that nothing is left
	}
	for _, name := range []string{probeFirst, probeHash, probeSum} {
		err := p.store.core.RemoveObject(ctx, p.store.opts.Bucket, p.prefix+"/"+name, minio.RemoveObjectOptions{})
		if err != nil && classify(err) != classMissing {
			p.store.opts.Log.WarnContext(ctx, "a key of the probe could not be removed", "key", p.prefix+"/"+name)
			return
		}
	}
}

func (p *probe) versions(ctx context.Context) {
	const name = "versions"
	config, err := p.store.core.GetBucketVersioning(ctx, p.store.opts.Bucket)
	switch {
	case err != nil:
		p.add(name, ResultWarning, "could not be asked for: "+err.Error(), nil)
	case config.Enabled() || config.Suspended():
		p.add(name, ResultWarning, "the bucket keeps versions: deleted sessions stay until a lifecycle rule removes old versions", nil)
	default:
		p.add(name, ResultOK, "the bucket keeps no versions", nil)
	}
}

func (p *probe) clock() {
	const name = "clock"
	offset, ok := p.store.transport.clockOffset()
	switch {
	case !ok:
		p.add(name, ResultWarning, "the server gave no date", nil)
	case offset.Abs() > clockWarning:
		p.add(name, ResultWarning, fmt.Sprintf("the server's clock differs by %s; requests are refused from 15m on", offset.Round(time.Second)), nil)
	default:
		p.add(name, ResultOK, "the clocks agree within a minute", nil)
	}
}
