package viewer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/cluster"
)

// Options say how the viewer is reached.
type Options struct {
	// URL is the viewer's address; empty looks for its Service and forwards a port to it.
	URL string
	// Namespace is where the viewer's Service is; empty looks in all namespaces that the caller may look in.
	Namespace string
	// CAFile has the certificates that the viewer's is checked against, instead of the system's.
	CAFile string
	// TokenFile has the bearer token; empty takes the kubeconfig's, or one of Account.
	TokenFile string
	// Account is the ServiceAccount whose token is asked for, as NAMESPACE/NAME, or NAME in the viewer's namespace. Empty
	// stands for the kubeconfig's own token, and where that has none for the account that the chart installs for this.
	Account string
}

// answerTimeout is how long the viewer may take to begin an answer. It reads a session that it has not read yet from its
// beginning.
const answerTimeout = 2 * time.Minute

// Connect finds the viewer and a token for it. The Client must be closed.
func Connect(ctx context.Context, c *cluster.Cluster, opts Options) (*Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // documented to be one
	transport.ResponseHeaderTimeout = answerTimeout
	client := &Client{Namespace: c.Namespace, HTTP: &http.Client{Transport: transport}}
	if opts.CAFile != "" {
		pool, err := pool(opts.CAFile)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	home := opts.Namespace
	if opts.URL != "" {
		base, err := address(opts.URL)
		if err != nil {
			return nil, err
		}
		client.Base = base
	} else {
		found, err := find(ctx, c, opts.Namespace)
		if err != nil {
			return nil, err
		}
		home = found.service.Namespace
		// The forwarded port is this machine's own: no proxy leads there.
		transport.Proxy = nil
		if err := forward(ctx, c.Config, found, client); err != nil {
			return nil, err
		}
		if strings.HasPrefix(client.Base, "https:") {
			if transport.TLSClientConfig == nil {
				transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
			}
			transport.TLSClientConfig.ServerName = found.service.Name + "." + found.service.Namespace + ".svc"
		}
	}
	token, err := tokens(ctx, c, opts, home)
	if err == nil {
		err = client.Reach(ctx)
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	client.Token = token
	return client, nil
}

// address checks and normalises an address that the user gave.
func address(given string) (string, error) {
	parsed, err := url.Parse(given)
	switch {
	case err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https":
		return "", fmt.Errorf("--viewer-url %s: use an address such as https://agentloop.example.com", given)
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		return "", errors.New("--viewer-url must hold no user, query or fragment: a token is taken from the kubeconfig, or from --viewer-token-file")
	}
	return strings.TrimRight(given, "/"), nil
}

func pool(file string) (*x509.CertPool, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--viewer-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("--viewer-ca-file %s holds no certificate in PEM", file)
	}
	return pool, nil
}
