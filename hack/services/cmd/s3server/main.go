// Command s3server is a small S3 server for tests and the demo: versitygw's gateway over a folder, with one account.
//
// Guarantees: it listens only where --listen says; once it has printed its "ready" line the bucket exists and
// requests are answered; it keeps everything under --dir, so that a killed server continues where it was; it ends
// with status 0 on SIGTERM and SIGINT. It is not a production server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

// region is what the server reports and what clients sign for.
const region = "us-east-1"

// readyLimit bounds the wait for the server's own first answer.
const readyLimit = 30 * time.Second

type config struct {
	listen, dir, accessKey, secretKey, bucket string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("s3server: ")
	var cfg config
	flag.StringVar(&cfg.listen, "listen", "127.0.0.1:9000", "address to serve S3 on; the port must be given")
	flag.StringVar(&cfg.dir, "dir", "", "folder that keeps the objects and their metadata (required)")
	flag.StringVar(&cfg.accessKey, "access-key", "", "access key of the only account (required)")
	flag.StringVar(&cfg.secretKey, "secret-key", "", "secret key of the only account (required; or environment S3SERVER_SECRET_KEY)")
	flag.StringVar(&cfg.bucket, "bucket", "", "bucket to create when it is not there yet")
	flag.Parse()
	if cfg.secretKey == "" {
		cfg.secretKey = os.Getenv("S3SERVER_SECRET_KEY")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, cfg); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends or serving fails.
func run(ctx context.Context, cfg config) error {
	if cfg.dir == "" || cfg.accessKey == "" || cfg.secretKey == "" {
		return errors.New("--dir, --access-key and --secret-key are required")
	}
	if _, port, err := net.SplitHostPort(cfg.listen); err != nil || port == "" || port == "0" {
		return fmt.Errorf("--listen %q must be host:port with a port of its own", cfg.listen)
	}
	backend, err := openBackend(cfg.dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", cfg.dir, err)
	}
	serveCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- embedgw.RunVersityGW(serveCtx, backend, &embedgw.Config{
			RootUserAccess:    cfg.accessKey,
			RootUserSecret:    cfg.secretKey,
			Region:            region,
			Ports:             []string{cfg.listen},
			MaxConnections:    4096,
			MaxRequests:       2048,
			MultipartMaxParts: 10000,
			KeepAlive:         true,
			Quiet:             true,
		})
	}()
	ready := make(chan error, 1)
	go func() { ready <- awaitReady(serveCtx, cfg) }()
	select {
	case err := <-served:
		return err
	case err := <-ready:
		if err != nil && ctx.Err() == nil {
			cancel()
			return errors.Join(err, <-served)
		}
	}
	if ctx.Err() == nil {
		fmt.Printf("s3server: ready endpoint=http://%s bucket=%s\n", cfg.listen, cfg.bucket)
	}
	return <-served
}

// openBackend keeps metadata in extended attributes, or in files of their own on file systems without them.
func openBackend(dir string) (*posix.Posix, error) {
	data, sidecar := filepath.Join(dir, "data"), filepath.Join(dir, "meta")
	for _, d := range []string{data, sidecar} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	if (meta.XattrMeta{}).Test(data) == nil {
		return posix.New(data, meta.XattrMeta{}, posix.PosixOpts{})
	}
	store, err := meta.NewSideCar(sidecar)
	if err != nil {
		return nil, err
	}
	return posix.New(data, store, posix.PosixOpts{SideCarDir: sidecar})
}

// awaitReady asks the server itself until it answers an S3 request, creating the bucket on the way.
func awaitReady(ctx context.Context, cfg config) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	client := s3.New(s3.Options{
		Region:           region,
		BaseEndpoint:     aws.String("http://" + cfg.listen),
		UsePathStyle:     true,
		Credentials:      credentials.NewStaticCredentialsProvider(cfg.accessKey, cfg.secretKey, ""),
		RetryMaxAttempts: 1,
	})
	for {
		err := probe(ctx, client, cfg.bucket)
		if err == nil {
			return nil
		}
		if refused(err) {
			return fmt.Errorf("create bucket %q: %w", cfg.bucket, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer on %s within %s: %w", cfg.listen, readyLimit, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func probe(ctx context.Context, client *s3.Client, bucket string) error {
	if bucket == "" {
		_, err := client.ListBuckets(ctx, &s3.ListBucketsInput{})
		return err
	}
	_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucket)})
	var mine *types.BucketAlreadyOwnedByYou
	var taken *types.BucketAlreadyExists
	if errors.As(err, &mine) || errors.As(err, &taken) {
		return nil
	}
	return err
}

// refused says that the server answered and will not answer otherwise when asked again.
func refused(err error) bool {
	var answer *smithyhttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() >= 400 && answer.HTTPStatusCode() < 500
}
