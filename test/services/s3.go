package services

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// readyAnswer bounds one question to a starting server.
const readyAnswer = 2 * time.Second

// S3Options say how an S3 server is started.
type S3Options struct {
	// Programs is the folder with the s3server binary (hack/services/setup.sh prints it).
	Programs string
	// Dir keeps the objects and the log. The caller owns it.
	Dir string
	// Bucket is created when it is not there; "" is "agentloop".
	Bucket string
	// SecretKey is the account's secret; "" makes a random one, which a later server over the same Dir need not share.
	SecretKey string
}

// S3 is a running S3 server with one account and one bucket. Requests use the path style.
type S3 struct {
	*Process
	// Endpoint is the server's URL: http://127.0.0.1:port, the same over restarts. Host is it without the scheme.
	Endpoint, Host       string
	AccessKey, SecretKey string
	Region, Bucket       string
}

// StartS3 starts a server on a free loopback port and waits until its bucket answers.
func StartS3(ctx context.Context, opts S3Options) (*S3, error) {
	binary, err := program(opts.Programs, "s3server")
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s := &S3{AccessKey: "agentloop", SecretKey: opts.SecretKey, Region: "us-east-1", Bucket: opts.Bucket}
	if s.SecretKey == "" {
		s.SecretKey = rand.Text()
	}
	if s.Bucket == "" {
		s.Bucket = "agentloop"
	}
	s.Process, err = startOnFreePort(ctx, func(address string) (*Process, error) {
		s.Host, s.Endpoint = address, "http://"+address
		return &Process{
			name:    "s3server",
			logPath: filepath.Join(dir, "s3server.log"),
			command: func() *exec.Cmd { return s.command(binary, dir) },
			ready:   s.ask,
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// command hands the secret over in the environment, where other users of the machine do not see it.
func (s *S3) command(binary, dir string) *exec.Cmd {
	cmd := exec.Command(binary, "--listen", s.Host, "--dir", filepath.Join(dir, "objects"),
		"--access-key", s.AccessKey, "--bucket", s.Bucket)
	cmd.Env = append(os.Environ(), "S3SERVER_SECRET_KEY="+s.SecretKey)
	return cmd
}

// ask looks for the bucket with a signed request.
func (s *S3) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyAnswer)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	client, err := minio.New(s.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""),
		Region:       s.Region,
		Transport:    transport,
		BucketLookup: minio.BucketLookupPath,
		MaxRetries:   1,
	})
	if err != nil {
		return err
	}
	found, err := client.BucketExists(ctx, s.Bucket)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("bucket %q is not there yet at %s", s.Bucket, strings.TrimPrefix(s.Endpoint, "http://"))
	}
	return nil
}
