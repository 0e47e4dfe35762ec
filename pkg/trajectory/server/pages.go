package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// pagePolicy admits scripts and styles only as files of the page itself, and no way to make code out of text.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'self'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// contentTypes are those of the files that a page is built of. Others are sent as bytes.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2", ".json": "application/json",
	".txt": "text/plain; charset=utf-8",
}

// pages serves the built page: its one document under every address that the page knows, and its files.
func (s *Server) pages() (http.Handler, error) {
	if s.opts.Page == nil {
		return http.HandlerFunc(nothing), nil
	}
	index, err := fs.ReadFile(s.opts.Page, "index.html")
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	sum := sha256.Sum256(index)
	tag := `W/"` + hex.EncodeToString(sum[:12]) + `"`
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", pagePolicy)
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		if matches(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", contentTypes[".html"])
		_, _ = w.Write(index) // the client is gone when it fails
	})
	mux := http.NewServeMux()
	mux.Handle("/{$}", page)
	mux.Handle("/projects/{namespace}/sessions/{name}", page)
	mux.Handle("/projects/{namespace}/sessions/{name}/trajectory", page)
	mux.HandleFunc("/", s.file)
	return mux, nil
}

func nothing(w http.ResponseWriter, r *http.Request) { notFound("There is nothing here").write(w, r) }

// file serves one file of the page. Names below assets change with their content.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	body, err := fs.ReadFile(s.opts.Page, name)
	if err != nil || name == "index.html" {
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) {
			s.opts.Logger.Debug("page file not served", "error", err)
		}
		nothing(w, r)
		return
	}
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Cache-Control", "no-cache")
	if strings.HasPrefix(name, "assets/") {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	contentType, ok := contentTypes[path.Ext(name)]
	if !ok {
		contentType = "application/octet-stream"
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(body) //nolint:gosec // a file of the built page; the client is gone when it fails
}
