package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	stdgzip "compress/gzip"

	zstdlib "github.com/klauspost/compress/zstd"
)

// encoding is a content encoding that is asked for.
type encoding string

const (
	plain encoding = "identity"
	gzip  encoding = "gzip"
	zstd  encoding = "zstd"
)

func (b *viewerBench) request(ctx context.Context, path string, as encoding) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.world.ViewerURL+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+b.token)
	request.Header.Set("Accept-Encoding", string(as))
	response, err := b.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, 1000))
	return nil, fmt.Errorf("%s: %s: %s %w", path, response.Status, said, err)
}

// get returns an answer as it was sent, and how long it took.
func (b *viewerBench) get(ctx context.Context, path string, as encoding) ([]byte, time.Duration, error) {
	begun := time.Now()
	response, err := b.request(ctx, path, as)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	took := time.Since(begun)
	if err == nil && as != plain && response.Header.Get("Content-Encoding") != string(as) {
		err = fmt.Errorf("%s: sent as %q", path, response.Header.Get("Content-Encoding"))
	}
	return body, took, err
}

// drain reads an answer to its end without keeping it. It returns its size, its last line and how long it took.
func (b *viewerBench) drain(ctx context.Context, path string) (size int64, last []byte, took time.Duration, err error) {
	begun := time.Now()
	response, err := b.request(ctx, path, plain)
	if err != nil {
		return 0, nil, 0, err
	}
	defer response.Body.Close()
	tail := &tail{}
	size, err = io.CopyBuffer(tail, response.Body, make([]byte, 256<<10))
	return size, tail.line, time.Since(begun), err
}

// tail keeps the last line of what is written.
type tail struct{ line []byte }

// Write implements io.Writer.
func (t *tail) Write(data []byte) (int, error) {
	if at := bytes.LastIndexByte(bytes.TrimSuffix(data, []byte("\n")), '\n'); at >= 0 {
		t.line = append(t.line[:0], data[at+1:]...)
		return len(data), nil
	}
	if bytes.HasSuffix(t.line, []byte("\n")) {
		t.line = t.line[:0]
	}
	t.line = append(t.line, data...)
	return len(data), nil
}

func decodePage(body []byte, as encoding) (page, error) {
	var reader io.Reader = bytes.NewReader(body)
	switch as {
	case plain:
	case gzip:
		unpacked, err := stdgzip.NewReader(reader)
		if err != nil {
			return page{}, err
		}
		reader = unpacked
	case zstd:
		unpacked, err := zstdlib.NewReader(reader)
		if err != nil {
			return page{}, err
		}
		defer unpacked.Close()
		reader = unpacked
	}
	var out page
	err := json.NewDecoder(reader).Decode(&out)
	return out, err
}
