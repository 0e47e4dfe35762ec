package services

import (
	"context"
	"os"
)

// FolderVariable is the environment variable that tests find the server programs by.
const FolderVariable = "AGENTLOOP_SERVICES"

// TB is the part of testing.TB that is used here, so that programs can link this package without package testing.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
	TempDir() string
}

// Folder returns the folder of server programs for a test, and fails the test when it is not set.
func Folder(tb TB) string {
	tb.Helper()
	folder := os.Getenv(FolderVariable)
	if folder == "" {
		tb.Fatalf("%s is not set: run `make services` and set it to the folder that it prints (`make test` does both)", FolderVariable)
	}
	return folder
}

// NATSForTest starts a NATS server for one test, with a folder of its own, and ends it with the test.
func NATSForTest(tb TB) *NATS {
	tb.Helper()
	n, err := StartNATS(context.Background(), NATSOptions{Programs: Folder(tb), Dir: tb.TempDir()})
	if err != nil {
		tb.Fatalf("start NATS: %v", err)
	}
	tb.Cleanup(func() { _ = n.Kill() }) // the folder goes with the test: nothing is left to be saved
	return n
}

// S3ForTest starts an S3 server for one test, with a folder of its own, and ends it with the test.
func S3ForTest(tb TB) *S3 {
	tb.Helper()
	s, err := StartS3(context.Background(), S3Options{Programs: Folder(tb), Dir: tb.TempDir()})
	if err != nil {
		tb.Fatalf("start S3: %v", err)
	}
	tb.Cleanup(func() { _ = s.Kill() }) // as above
	return s
}
